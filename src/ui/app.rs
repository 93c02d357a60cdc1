//! The page as a whole: regions, dialogs, shortcuts, the frame loop.

use std::rc::Rc;

use gloo_timers::callback::{Interval, Timeout};
use wasm_bindgen::JsCast;
use wasm_bindgen::prelude::Closure;
use web_sys::{HtmlElement, KeyboardEvent};
use yew::prelude::*;

use super::add::{AddProducer, AddTopic};
use super::build::Build;
use super::command_bar::CommandBar;
use super::compare::ask::AskCompare;
use super::compare::{Compare, use_comparison};
use super::frame::FrameLoop;
use super::header::Header;
use super::help::Help;
use super::keep;
use super::keys::{self, Shortcut};
use super::open::Open;
use super::panel::Panel;
use super::run::{DEFAULT_NAME, DEFAULT_SCENARIO, Run};
use super::share::{self, Share};
use super::stage::Stage;
use super::stage::flights::Painter;
use super::store::{Store, use_slice, use_store};
use super::theme;
use super::timeline::Timeline;
use super::widget::dialog::Dialog;
use crate::view::announce::Announcer;

/// Draws the page into `#app` and lets the cluster run.
pub fn mount() {
    let run = Run::open(DEFAULT_NAME, DEFAULT_SCENARIO).expect("the default scenario is right");
    let store = Store::new(run);
    if let Some(link) = share::in_address() {
        // What is wrong with it is said on the page, which shows the default cluster then.
        store.open_address(&link);
    } else if let Some((id, text)) = keep::take_of_tab() {
        // A run that another version kept may be none here; Open has it still.
        let _ = store.open_kept(&id, &text);
    }
    let document = web_sys::window().and_then(|window| window.document());
    let root = document.and_then(|document| document.get_element_by_id("app")).expect("the page has #app");
    root.set_text_content(None);
    yew::Renderer::<App>::with_root_and_props(root, AppProps { store }).render();
}

/// How soon what was done is kept.
const KEEP_EVERY_MS: u32 = 2_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Nothing,
    Open,
    Build,
    Share,
    Compare,
    Help,
    Producer,
    Topic,
}

#[derive(PartialEq, Properties)]
pub struct AppProps {
    pub store: Store,
}

/// **Invariant:** at most one dialog is open.
#[component]
pub fn App(props: &AppProps) -> Html {
    let asked = use_state_eq(|| Asked::Nothing);
    let panel_open = use_state_eq(|| false);
    let command = use_node_ref();
    use_frames(props.store.clone());
    use_address(props.store.clone());
    use_keeping(props.store.clone());
    use_shortcuts(props.store.clone(), asked.setter(), panel_open.setter(), command.clone());

    let ask = {
        let asked = asked.setter();
        move |what: Asked| {
            let asked = asked.clone();
            Callback::from(move |()| asked.set(what))
        }
    };
    let on_close = use_callback(asked.setter(), |(), asked| asked.set(Asked::Nothing));
    let on_panel = {
        let panel_open = panel_open.clone();
        Callback::from(move |()| panel_open.set(!*panel_open))
    };
    use_effect_with(*panel_open, |open| {
        // The drawer can take the focus only when it has begun to come in.
        let timeout = open.then(|| Timeout::new(50, || focus(".panel-close")));
        move || drop(timeout)
    });
    let on_panel_close = on_panel.reform(|()| focus(".panel-button"));
    html! {
        <ContextProvider<Store> context={props.store.clone()}>
            <div class={classes!("page", panel_open.then_some("panel-open"))}>
                <Header key="header" on_open={ask(Asked::Open)} on_share={ask(Asked::Share)} on_help={ask(Asked::Help)} on_panel={on_panel.clone()}
                    panel_open={*panel_open} />
                <main key="main">
                    <Main on_producer={ask(Asked::Producer)} on_topic={ask(Asked::Topic)} {on_panel_close} />
                </main>
                <Foot key="foot" input={command} on_compare={ask(Asked::Compare)} />
                <LiveRegion key="live" />
                <Dialog key="open" open={*asked == Asked::Open} title="Open a scenario" on_close={on_close.clone()}>
                    <Open on_done={on_close.clone()} on_build={ask(Asked::Build)} />
                </Dialog>
                <Dialog key="build" open={*asked == Asked::Build} title="Build a scenario" on_close={on_close.clone()}>
                    <Build on_done={on_close.clone()} />
                </Dialog>
                <Dialog key="share" open={*asked == Asked::Share} title="Share this moment" on_close={on_close.clone()}>
                    <Share />
                </Dialog>
                <Dialog key="compare" open={*asked == Asked::Compare} title="Compare" on_close={on_close.clone()}>
                    <AskCompare on_done={on_close.clone()} />
                </Dialog>
                <Dialog key="help" open={*asked == Asked::Help} title="Keys and marks" on_close={on_close.clone()}>
                    <Help />
                </Dialog>
                <Dialog key="producer" open={*asked == Asked::Producer} title="Add a producer" on_close={on_close.clone()}>
                    <AddProducer on_done={on_close.clone()} />
                </Dialog>
                <Dialog key="topic" open={*asked == Asked::Topic} title="Create a topic" on_close={on_close.clone()}>
                    <AddTopic on_done={on_close.clone()} />
                </Dialog>
            </div>
        </ContextProvider<Store>>
    }
}

#[derive(PartialEq, Properties)]
struct MainProps {
    on_producer: Callback<()>,
    on_topic: Callback<()>,
    on_panel_close: Callback<()>,
}

/// The stage and what is told of it, or two runs side by side.
#[component]
fn Main(props: &MainProps) -> Html {
    match use_comparison() {
        Some(view) => html! { <Compare {view} /> },
        None => html! {
            <>
                <Stage key="stage" on_add_producer={props.on_producer.clone()} on_add_topic={props.on_topic.clone()} />
                <Panel key="panel" on_close={props.on_panel_close.clone()} />
            </>
        },
    }
}

#[derive(PartialEq, Properties)]
struct FootProps {
    input: NodeRef,
    on_compare: Callback<()>,
}

/// What moves and changes the one run, which stands still while two are compared.
#[component]
fn Foot(props: &FootProps) -> Html {
    if use_comparison().is_some() {
        return Html::default();
    }
    html! {
        <>
            <Timeline key="timeline" on_compare={props.on_compare.clone()} />
            <CommandBar key="command" input={props.input.clone()} />
        </>
    }
}

/// Gives the focus to the element of a selector, if it is there and can take it.
fn focus(selector: &str) {
    let document = web_sys::window().and_then(|window| window.document());
    let element = document.and_then(|document| document.query_selector(selector).ok().flatten());
    if let Some(element) = element.and_then(|element| element.dyn_into::<HtmlElement>().ok()) {
        let _ = element.focus();
    }
}

/// Lets the run go on with the screen's frames while the page is mounted.
#[hook]
fn use_frames(store: Store) {
    use_effect_with(store, |store| {
        let store = store.clone();
        let mut painter = Painter::default();
        let frames = FrameLoop::start(move |real_ms| {
            store.frame(real_ms);
            painter.paint(&store.shown(), store.now());
        });
        move || drop(frames)
    });
}

/// Has the browser keep the run soon after something was done, and whenever the page may be about to go.
#[hook]
fn use_keeping(store: Store) {
    use_effect_with(store, |store| {
        let interval = {
            let store = store.clone();
            Interval::new(KEEP_EVERY_MS, move || store.keep(false))
        };
        let store = store.clone();
        let listener = Closure::<dyn Fn()>::new(move || store.keep(true));
        let function = listener.as_ref().unchecked_ref::<js_sys::Function>().clone();
        let window = web_sys::window();
        if let Some(window) = &window {
            // Fails only for a listener that is no function.
            let _ = window.add_event_listener_with_callback("pagehide", &function);
        }
        move || {
            if let Some(window) = &window {
                let _ = window.remove_event_listener_with_callback("pagehide", &function);
            }
            drop((interval, listener));
        }
    });
}

/// Opens the link when somebody puts another one into the address of the open page.
#[hook]
fn use_address(store: Store) {
    use_effect_with(store, |store| {
        let store = store.clone();
        let listener = Closure::<dyn Fn()>::new(move || {
            if let Some(link) = share::in_address() {
                store.open_address(&link);
            }
        });
        let window = web_sys::window();
        if let Some(window) = &window {
            // Fails only for a listener that is no function.
            let _ = window.add_event_listener_with_callback("hashchange", listener.as_ref().unchecked_ref());
        }
        move || {
            if let Some(window) = &window {
                let _ = window
                    .remove_event_listener_with_callback("hashchange", listener.as_ref().unchecked_ref());
            }
        }
    });
}

#[hook]
fn use_shortcuts(
    store: Store,
    asked: UseStateSetter<Asked>,
    panel_open: UseStateSetter<bool>,
    command: NodeRef,
) {
    use_effect_with(store, move |store| {
        let store = store.clone();
        let listener = Closure::<dyn Fn(KeyboardEvent)>::new(move |event: KeyboardEvent| {
            let Some(shortcut) = keys::shortcut(&event) else { return };
            event.prevent_default();
            match shortcut {
                Shortcut::PlayOrPause => store.play_or_pause(),
                Shortcut::Step => store.step(),
                Shortcut::StepBack => store.step_back(),
                Shortcut::MarkBefore => store.go_to_mark(false, None),
                Shortcut::MarkAfter => store.go_to_mark(true, None),
                Shortcut::NextChange => store.run_to_next_change(),
                Shortcut::Theme => theme::toggle(),
                Shortcut::Measure => store.measure(),
                Shortcut::Help => asked.set(Asked::Help),
                Shortcut::CloseDrawer => {
                    store.end_comparison();
                    focus(".panel-open .panel-button");
                    panel_open.set(false);
                }
                Shortcut::CommandField => {
                    if let Some(input) = command.cast::<HtmlElement>() {
                        // A field that cannot take the focus leaves it where it is.
                        let _ = input.focus();
                    }
                }
            }
        });
        let window = web_sys::window();
        if let Some(window) = &window {
            // Fails only for a listener that is no function.
            let _ = window.add_event_listener_with_callback("keydown", listener.as_ref().unchecked_ref());
        }
        move || {
            if let Some(window) = &window {
                let _ =
                    window.remove_event_listener_with_callback("keydown", listener.as_ref().unchecked_ref());
            }
        }
    });
}

/// What is new for screen readers: a sentence a second at most, and the object that was chosen.
#[component]
fn LiveRegion() -> Html {
    let store = use_store();
    let sentence = use_state_eq(|| Rc::<str>::from(""));
    use_effect_with(store, {
        let sentence = sentence.setter();
        move |store| {
            let store = store.clone();
            let mut announcer = Announcer::default();
            let interval = Interval::new(1000, move || {
                if let Some(next) = announcer.next(&store.shown().model.sentences) {
                    sentence.set(next);
                }
            });
            move || drop(interval)
        }
    });
    let inspected =
        use_slice(|shown| shown.model.inspected.as_ref().map(|inspected| inspected.title.clone()));
    html! {
        <div class="unseen">
            <p key="sentence" aria-live="polite">{ (*sentence).to_string() }</p>
            <p key="inspected" aria-live="polite">{ inspected.as_deref().unwrap_or("").to_owned() }</p>
        </div>
    }
}
