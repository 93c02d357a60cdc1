//! Slices that keep their pointer while they say the same.
//!
//! **Invariant:** what is returned equals what was given.

use std::rc::Rc;

use crate::view::model::List;

/// The slice from before if it equals `new`.
pub fn keep<T: Eq>(before: Option<&Rc<T>>, new: T) -> Rc<T> {
    match before {
        Some(before) if **before == new => before.clone(),
        _ => Rc::new(new),
    }
}

/// The array from before if it equals `new`.
pub fn keep_array<T: Eq>(before: Option<&Rc<[T]>>, new: Vec<T>) -> Rc<[T]> {
    match before {
        Some(before) if **before == *new => before.clone(),
        _ => new.into(),
    }
}

/// Each element from before that equals its successor, which `is_same` finds; the list itself if all of it is kept.
pub fn keep_list<T: Eq>(
    before: Option<&List<T>>,
    new: impl IntoIterator<Item = T>,
    is_same: impl Fn(&T, &T) -> bool,
) -> List<T> {
    let find = |item: &T| before.and_then(|list| list.iter().find(|old| is_same(old, item)));
    let kept: Vec<Rc<T>> = new.into_iter().map(|item| keep(find(&item), item)).collect();
    match before {
        Some(list) if list.len() == kept.len() && list.iter().zip(&kept).all(|(a, b)| Rc::ptr_eq(a, b)) => {
            list.clone()
        }
        _ => kept.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Item = (u8, &'static str);

    fn list(items: &[Item], before: Option<&List<Item>>) -> List<Item> {
        keep_list(before, items.iter().copied(), |a, b| a.0 == b.0)
    }

    #[test]
    fn an_equal_list_is_the_same_list() {
        let first = list(&[(1, "a"), (2, "b")], None);
        assert!(Rc::ptr_eq(&first, &list(&[(1, "a"), (2, "b")], Some(&first))));
    }

    #[test]
    fn only_the_element_that_changed_is_new() {
        let first = list(&[(1, "a"), (2, "b")], None);
        let second = list(&[(2, "b"), (1, "z")], Some(&first));
        assert!(Rc::ptr_eq(&first[1], &second[0]));
        assert_eq!(*second[1], (1, "z"));
        assert!(!Rc::ptr_eq(&first, &second));
    }
}
