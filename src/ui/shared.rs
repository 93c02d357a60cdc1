//! A slice of the view model as a component's property, compared by pointer.

use std::ops::Deref;
use std::rc::Rc;

use yew::html::ImplicitClone;

/// **Invariant:** two are equal when they are the same slice, so an unchanged slice never draws again.
#[derive(Debug)]
pub struct Shared<T: ?Sized>(Rc<T>);

impl<T: ?Sized> Shared<T> {
    pub fn new(slice: &Rc<T>) -> Self {
        Shared(slice.clone())
    }
}

impl<T: ?Sized> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared(self.0.clone())
    }
}

impl<T: ?Sized> ImplicitClone for Shared<T> {}

impl<T: ?Sized> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl<T: ?Sized> Deref for Shared<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}
