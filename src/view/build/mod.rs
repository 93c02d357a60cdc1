//! The world as a view model, each slice kept from the model before while it says the same.

pub mod broker;
pub mod client;
pub mod flight;
pub mod inspect;
pub mod reuse;
