//! What a run looks like: the world turned into a view model, and the words for it.
//!
//! **Invariant:** nothing here knows a browser, and nothing here changes the world.

pub mod act;
pub mod announce;
pub mod build;
pub mod compare;
pub mod ledger;
pub mod links;
pub mod reason;
pub mod model;
pub mod row;
pub mod rules;
pub mod sentences;
pub mod suggestions;
pub mod timeline;
