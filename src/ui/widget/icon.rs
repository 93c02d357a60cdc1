//! The page's icons, drawn here: 20 by 20, in the text's colour.

use yew::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icon {
    Logo,
    Play,
    Pause,
    Step,
    StepBack,
    MarkBefore,
    MarkAfter,
    NextChange,
    Open,
    Share,
    Theme,
    Help,
    Panel,
    Close,
}

impl Icon {
    /// What is filled, and what is drawn with a line.
    fn paths(self) -> (&'static str, &'static str) {
        match self {
            Icon::Logo => (
                "M2 3.5h16a1 1 0 0 1 1 1v2a1 1 0 0 1-1 1H2a1 1 0 0 1-1-1v-2a1 1 0 0 1 1-1zM2 8.5h10a1 1 0 0 1 1 1v2a1 1 0 0 1-1 1H2a1 1 0 0 1-1-1v-2a1 1 0 0 1 1-1zM2 13.5h13a1 1 0 0 1 1 1v2a1 1 0 0 1-1 1H2a1 1 0 0 1-1-1v-2a1 1 0 0 1 1-1z",
                "",
            ),
            Icon::Play => {
                ("M6 3.8v12.4a.8.8 0 0 0 1.2.7l10-6.2a.8.8 0 0 0 0-1.4l-10-6.2A.8.8 0 0 0 6 3.8z", "")
            }
            Icon::Pause => ("M5 3.5h3.4v13H5zM11.6 3.5H15v13h-3.4z", ""),
            Icon::Step => ("M4 4.4v11.2l8-5.6zM13.4 4H16v12h-2.6z", ""),
            Icon::StepBack => ("M16 4.4v11.2l-8-5.6zM6.6 4H4v12h2.6z", ""),
            Icon::MarkBefore => ("M13 3.5v13L4.5 10z", "M15.5 4v12"),
            Icon::MarkAfter => ("M7 3.5v13l8.5-6.5z", "M4.5 4v12"),
            Icon::NextChange => ("M2.5 4.4v11.2l6.6-5.6zM9.1 4.4v11.2l6.6-5.6z", "M17.3 4v12"),
            Icon::Open => ("", "M2.5 15.5v-11h5l2 2.5h8v8.5z"),
            Icon::Share => ("", "M10 12.5v-9M6.5 6.5L10 3l3.5 3.5M4 10v6.5h12V10"),
            Icon::Theme => ("M10 3a7 7 0 0 1 0 14z", "M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14z"),
            Icon::Help => ("M9 13.6h2v2H9z", "M7 7.2c.2-1.7 1.4-2.7 3-2.7 1.8 0 3 1 3 2.6 0 2.2-3 2.3-3 4.7"),
            Icon::Panel => ("M12.5 4.5h5v11h-5z", "M2.5 4.5h15v11h-15z"),
            Icon::Close => ("", "M5 5l10 10M15 5L5 15"),
        }
    }
}

#[derive(PartialEq, Properties)]
pub struct GlyphProps {
    pub icon: Icon,
}

#[component]
pub fn Glyph(props: &GlyphProps) -> Html {
    let (fill, line) = props.icon.paths();
    html! {
        <svg class="glyph" viewBox="0 0 20 20" aria-hidden="true">
            <path class="fill" d={fill} />
            <path class="line" d={line} />
        </svg>
    }
}
