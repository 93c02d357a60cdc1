//! A map of offsets whose copies share what neither has written to since.
//!
//! **Invariant:** an offset is in the page of its number, and no page is empty.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use crate::kafka::types::Offset;

/// Offsets of a page: few enough that the first write after a copy costs little.
const OFFSETS_PER_PAGE: i64 = 256;

type Page<V> = BTreeMap<Offset, V>;

#[derive(Clone, Debug)]
pub struct Pages<V> {
    pages: BTreeMap<i64, Rc<Page<V>>>,
}

impl<V> Default for Pages<V> {
    fn default() -> Self {
        Pages { pages: BTreeMap::new() }
    }
}

fn page_of(offset: Offset) -> i64 {
    offset.0.div_euclid(OFFSETS_PER_PAGE)
}

impl<V: Clone + Default> Pages<V> {
    /// What is at an offset, a default if there is nothing yet.
    pub fn at(&mut self, offset: Offset) -> &mut V {
        let page = self.pages.entry(page_of(offset)).or_default();
        Rc::make_mut(page).entry(offset).or_default()
    }

    pub fn get_mut(&mut self, offset: Offset) -> Option<&mut V> {
        let page = self.pages.get_mut(&page_of(offset))?;
        if !page.contains_key(&offset) {
            return None;
        }
        Rc::make_mut(page).get_mut(&offset)
    }

    pub fn remove(&mut self, offset: Offset) {
        let number = page_of(offset);
        if let Some(page) = self.pages.get_mut(&number) {
            let page = Rc::make_mut(page);
            page.remove(&offset);
            if page.is_empty() {
                self.pages.remove(&number);
            }
        }
    }

    pub fn first(&self) -> Option<Offset> {
        let (_, page) = self.pages.first_key_value()?;
        page.keys().next().copied()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Offset, &V)> {
        self.pages.values().flat_map(|page| page.iter().map(|(offset, value)| (*offset, value)))
    }

    /// Those from `range.start` up to and without `range.end`.
    pub fn range(&self, range: Range<Offset>) -> impl DoubleEndedIterator<Item = (Offset, &V)> {
        let pages = page_of(range.start)..=page_of(range.end).max(page_of(range.start));
        let range = range.start..range.end.max(range.start);
        self.pages
            .range(pages)
            .flat_map(move |(_, page)| page.range(range.clone()).map(|(offset, value)| (*offset, value)))
    }

    /// Those from an offset on. Each page that is come to is written to.
    pub fn range_mut(&mut self, from: Offset) -> impl DoubleEndedIterator<Item = &mut V> {
        let pages = self.pages.range_mut(page_of(from)..).map(|(_, page)| page);
        pages.flat_map(move |page| Rc::make_mut(page).range_mut(from..).map(|(_, value)| value))
    }

    pub fn into_values(self) -> impl Iterator<Item = V> {
        self.pages.into_values().flat_map(|page| Rc::unwrap_or_clone(page).into_values())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Act {
        Write(i64),
        Remove(i64),
        WriteFrom(i64),
    }

    fn act() -> impl Strategy<Value = Act> {
        let offset = -300..1_000_i64;
        prop_oneof![
            offset.clone().prop_map(Act::Write),
            offset.clone().prop_map(Act::Remove),
            offset.prop_map(Act::WriteFrom),
        ]
    }

    fn carry_out(pages: &mut Pages<i64>, model: &mut Page<i64>, act: &Act) {
        match *act {
            Act::Write(offset) => {
                *pages.at(Offset(offset)) += 1;
                *model.entry(Offset(offset)).or_default() += 1;
            }
            Act::Remove(offset) => {
                pages.remove(Offset(offset));
                model.remove(&Offset(offset));
            }
            Act::WriteFrom(offset) => {
                pages.range_mut(Offset(offset)).for_each(|value| *value += 10);
                model.range_mut(Offset(offset)..).for_each(|(_, value)| *value += 10);
            }
        }
    }

    fn check(pages: &Pages<i64>, model: &Page<i64>, from: i64, to: i64) -> Result<(), TestCaseError> {
        prop_assert!(pages.iter().eq(model.iter().map(|(offset, value)| (*offset, value))));
        let (from, to) = (Offset(from), Offset(to.max(from)));
        prop_assert!(pages.range(from..to).eq(model.range(from..to).map(|(offset, value)| (*offset, value))));
        prop_assert_eq!(pages.first(), model.keys().next().copied());
        prop_assert_eq!(pages.clone().get_mut(from).copied(), model.get(&from).copied());
        prop_assert!(pages.pages.values().all(|page| !page.is_empty()));
        Ok(())
    }

    proptest! {
        #[test]
        fn they_are_a_map_and_a_copy_keeps_what_it_had(
            acts in prop::collection::vec(act(), 0..60),
            copied_after in 0..60_usize,
            from in -300..1_000_i64,
            to in -300..1_000_i64,
        ) {
            let (mut pages, mut model) = (Pages::default(), Page::new());
            let mut copy = None;
            for (index, act) in acts.iter().enumerate() {
                if index == copied_after {
                    copy = Some((pages.clone(), model.clone()));
                }
                carry_out(&mut pages, &mut model, act);
            }
            check(&pages, &model, from, to)?;
            if let Some((pages, model)) = copy {
                check(&pages, &model, from, to)?;
            }
            prop_assert!(pages.into_values().eq(model.into_values()));
        }
    }
}
