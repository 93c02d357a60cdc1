//! The page: the view model drawn with Yew.
//!
//! It reads only `view` and gives only commands in their text form.
//!
//! **Invariant:** no component changes or drives the run; all of that passes through [`store::Store`].

pub mod add;
pub mod answer;
pub mod app;
pub mod build;
pub mod command_bar;
pub mod compare;
pub mod crash;
pub mod frame;
pub mod header;
pub mod help;
pub mod keep;
pub mod keys;
pub mod open;
pub mod panel;
pub mod run;
pub mod share;
pub mod shared;
pub mod stage;
pub mod store;
pub mod theme;
pub mod timeline;
pub mod widget;
