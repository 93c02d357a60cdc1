//! Small parts that every region uses.

pub mod button;
pub mod choose;
pub mod dialog;
pub mod icon;
pub mod rules;
