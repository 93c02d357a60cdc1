//! The header: the run's name, its clock and speed, and what belongs to the whole page.

use web_sys::HtmlInputElement;
use yew::prelude::*;

use super::store::{use_slice, use_store};
use super::theme;
use super::widget::button::IconButton;
use super::widget::icon::{Glyph, Icon};
use crate::lab::pace::{self, Step};

#[derive(PartialEq, Properties)]
pub struct HeaderProps {
    pub on_open: Callback<()>,
    pub on_share: Callback<()>,
    pub on_help: Callback<()>,
    pub on_panel: Callback<()>,
    pub panel_open: bool,
}

#[component]
pub fn Header(props: &HeaderProps) -> Html {
    let name = use_slice(|shown| shown.name.clone());
    let seed = use_slice(|shown| shown.model.scenario.seed);
    let on_theme = use_callback((), |(), ()| theme::toggle());
    html! {
        <header>
            <div class="name" key="name">
                <Glyph icon={Icon::Logo} />
                <h1>{ "Glassbroker" }</h1>
                <p class="run">
                    <b title={name.to_string()}>{ name.as_ref() }</b>
                    <span>{ format!("seed {seed}") }</span>
                </p>
            </div>
            <Transport key="transport" />
            <div class="page-buttons" key="page">
                <button type="button" onclick={props.on_open.reform(|_| ())}>
                    <Glyph icon={Icon::Open} />{ "Open" }
                </button>
                <button type="button" onclick={props.on_share.reform(|_| ())}>
                    <Glyph icon={Icon::Share} />{ "Share" }
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
    let on_back = use_callback(store.clone(), |(), store| store.step_back());
    let on_step = use_callback(store.clone(), |(), store| store.step());
    let on_next = use_callback(store.clone(), |(), store| store.run_to_next_change());
    html! {
        <div class="transport" role="group" aria-label="Time">
            <IconButton key="back" icon={Icon::StepBack} name="Step one event back (,)" disabled={transport.plays_only} onclick={on_back} />
            <IconButton key="play" class="primary" {icon} {name} onclick={on_play} />
            <IconButton key="step" icon={Icon::Step} name="Step one event (.)" disabled={transport.plays_only} onclick={on_step} />
            <IconButton key="next" icon={Icon::NextChange} name="Run to the next change (n)" disabled={transport.plays_only} onclick={on_next} />
            <output key="clock" class="clock" aria-label="Virtual time" aria-live="off">
                { transport.clock.as_ref() }
            </output>
            <SpeedControl key="speed" />
        </div>
    }
}

#[component]
fn SpeedControl() -> Html {
    let store = use_store();
    let transport = use_slice(|shown| shown.transport.clone());
    let oninput = use_callback(store.clone(), |event: InputEvent, store| {
        let input: HtmlInputElement = event.target_unchecked_into();
        store.choose_speed(Step::new(input.value_as_number() as i8));
    });
    let nearest = nearest(transport.speed);
    let on_automatic = {
        let automatic = transport.automatic;
        Callback::from(move |_: MouseEvent| store.choose_speed(automatic.then_some(nearest)))
    };
    let speed = pace::label(transport.speed);
    // Said while the slider has the focus: a speed that changes by itself would never stop being said.
    let said = if transport.automatic { "automatic".to_owned() } else { speed.clone() };
    html! {
        <div class="speed">
            <button key="auto" type="button" class="toggle" aria-pressed={transport.automatic.to_string()}
                title="Slow while something new flies, fast while nothing but timers is left" onclick={on_automatic}>
                { "auto" }
            </button>
            <input key="scale" type="range" min={Step::SLOWEST.position().to_string()} max={Step::FASTEST.position().to_string()} step="1" aria-label="Speed"
                aria-valuetext={said} value={nearest.position().to_string()} {oninput} />
            <output key="value" class="speed-value" aria-label="Present speed" aria-live="off">
                <b>{ speed }</b>
                <small>{ transport.reason }</small>
            </output>
        </div>
    }
}

/// The slider's step nearest to a speed.
fn nearest(speed: f64) -> Step {
    let steps = (Step::SLOWEST.position()..=Step::FASTEST.position()).filter_map(Step::new);
    let distance = |step: &Step| (step.speed() / speed).ln().abs();
    steps.min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(Step::REAL_TIME)
}
