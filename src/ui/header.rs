//! The header: the run's name, its clock and speed, and what belongs to the whole page.

use web_sys::HtmlInputElement;
use yew::prelude::*;

use super::store::{SpeedChoice, use_slice, use_store};
use super::theme;
use super::widget::button::IconButton;
use super::widget::icon::{Glyph, Icon};
use crate::view::pace::Speed;

#[derive(PartialEq, Properties)]
pub struct HeaderProps {
    pub on_open: Callback<()>,
    pub on_help: Callback<()>,
    pub on_panel: Callback<()>,
    pub panel_open: bool,
}

#[component]
pub fn Header(props: &HeaderProps) -> Html {
    let scenario = use_slice(|shown| shown.model.scenario.clone());
    let on_theme = use_callback((), |(), ()| theme::toggle());
    html! {
        <header>
            <div class="name" key="name">
                <Glyph icon={Icon::Logo} />
                <h1>{ "Glassbroker" }</h1>
                <p class="run">
                    <b>{ scenario.name.as_ref() }</b>
                    <span>{ format!("seed {}", scenario.seed) }</span>
                </p>
            </div>
            <Transport key="transport" />
            <div class="page-buttons" key="page">
                <button type="button" onclick={props.on_open.reform(|_| ())}>
                    <Glyph icon={Icon::Open} />{ "Open" }
                </button>
                <IconButton icon={Icon::Theme} name="Dark or light (t)" onclick={on_theme} />
                <IconButton icon={Icon::Help} name="Keys and help (?)" onclick={props.on_help.clone()} />
                <IconButton icon={Icon::Panel} class="panel-button" name="Events and details"
                    pressed={props.panel_open} onclick={props.on_panel.clone()} />
            </div>
        </header>
    }
}

/// Play, pause, step, next change; speed and clock.
#[component]
fn Transport() -> Html {
    let store = use_store();
    let transport = use_slice(|shown| shown.transport.clone());
    let (icon, name) =
        if transport.playing { (Icon::Pause, "Pause (space)") } else { (Icon::Play, "Play (space)") };
    let on_play = use_callback(store.clone(), |(), store| store.play_or_pause());
    let on_step = use_callback(store.clone(), |(), store| store.step());
    let on_next = use_callback(store.clone(), |(), store| store.run_to_next_change());
    html! {
        <div class="transport" role="group" aria-label="Time">
            <IconButton key="play" class="primary" {icon} {name} onclick={on_play} />
            <IconButton key="step" icon={Icon::Step} name="Step one event (.)" onclick={on_step} />
            <IconButton key="next" icon={Icon::NextChange} name="Run to the next change (n)" onclick={on_next} />
            <output key="clock" class="clock" aria-label="Virtual time" aria-live="off">
                { transport.clock.as_ref() }
            </output>
            <SpeedControl key="speed" />
        </div>
    }
}

/// Tenths of a power of ten, from 1/1000 to 1000.
fn to_slider(speed: Speed) -> i32 {
    ((f64::from(speed.us_per_ms()) / 1000.0).log10() * 10.0).round() as i32
}

fn from_slider(tenths: f64) -> Speed {
    Speed::from_us_per_ms((1000.0 * 10f64.powf(tenths / 10.0)).round() as u32)
}

#[component]
fn SpeedControl() -> Html {
    let store = use_store();
    let transport = use_slice(|shown| shown.transport.clone());
    let oninput = use_callback(store.clone(), |event: InputEvent, store| {
        let input: HtmlInputElement = event.target_unchecked_into();
        store.choose_speed(SpeedChoice::Fixed(from_slider(input.value_as_number())));
    });
    let on_automatic = {
        let (automatic, speed) = (transport.automatic, transport.speed);
        Callback::from(move |_: MouseEvent| {
            store.choose_speed(if automatic { SpeedChoice::Fixed(speed) } else { SpeedChoice::Automatic });
        })
    };
    html! {
        <div class="speed">
            <button key="auto" type="button" class="toggle" aria-pressed={transport.automatic.to_string()}
                title="Slow while something new flies, fast while only timers wait" onclick={on_automatic}>
                { "auto" }
            </button>
            <input key="scale" type="range" min="-30" max="30" step="1" aria-label="Speed"
                aria-valuetext={transport.speed.to_string()} value={to_slider(transport.speed).to_string()} {oninput} />
            <output key="value" class="speed-value" aria-label="Present speed" aria-live="off">
                <b>{ transport.speed.to_string() }</b>
                <small>{ transport.reason.as_ref() }</small>
            </output>
        </div>
    }
}
