//! Dates with a time, as `kafka-consumer-groups.sh --to-datetime` has them: `2026-01-01T00:00:30.000`, in UTC.
//!
//! **Invariant:** [`read`] of [`write`] is the moment itself, for the years 1970 to 9999.

const DAY_MS: i64 = 24 * 3_600_000;
/// Days of the months before this one, in a year that begins in March.
const BEFORE: [i64; 12] = [0, 31, 61, 92, 122, 153, 184, 214, 245, 275, 306, 337];
/// From the first of March of the year 0 to 1970.
const BEFORE_1970: i64 = 719_468;

/// Days since 1970 of a date of the Gregorian calendar. A leap day is the last of a year that begins in March.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    year * 365 + year / 4 - year / 100 + year / 400 + BEFORE[month as usize] + day - 1 - BEFORE_1970
}

/// Milliseconds since 1970 as a text.
pub(super) fn write(wall_ms: i64) -> String {
    let (of_days, ms) = (wall_ms.div_euclid(DAY_MS), wall_ms.rem_euclid(DAY_MS));
    let (mut year, mut month) = (1970 + of_days / 366, 12);
    while days(year + 1, 1, 1) <= of_days {
        year += 1;
    }
    while days(year, month, 1) > of_days {
        month -= 1;
    }
    let day = of_days - days(year, month, 1) + 1;
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}", ms % 1000)
}

/// The moment that a text names, in milliseconds since 1970.
pub(super) fn read(text: &str) -> Option<i64> {
    const FORM: &str = "0000-00-00T00:00:00.000";
    let fits = |(c, form): (char, char)| if form == '0' { c.is_ascii_digit() } else { c == form };
    if text.chars().count() != FORM.len() || !text.chars().zip(FORM.chars()).all(fits) {
        return None;
    }
    let number = |from: usize, to: usize| text[from..to].parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let known = year >= 1970 && (1..=12).contains(&month) && hour < 24 && minute < 60 && second < 60;
    let wall_ms =
        |days: i64| Some(days * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1000 + number(20, 23)?);
    // A day that its month does not have would come back as another.
    known.then(|| wall_ms(days(year, month, day))).flatten().filter(|ms| write(*ms) == text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_moment_is_written_as_kafkas_tool_reads_it() {
        let check =
            |wall_ms, text: &str| assert_eq!((write(wall_ms), read(text)), (text.to_owned(), Some(wall_ms)));
        check(0, "1970-01-01T00:00:00.000");
        check(951_782_400_000, "2000-02-29T00:00:00.000");
        check(1_767_225_600_000, "2026-01-01T00:00:00.000");
        check(1_767_225_599_999, "2025-12-31T23:59:59.999");
        check(1_772_323_200_001, "2026-03-01T00:00:00.001");
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "2026-01-01",
            "2026-02-29T00:00:00.000",
            "2026-13-01T00:00:00.000",
            "2026-00-01T00:00:00.000",
            "2026-01-00T00:00:00.000",
            "2026-01-01T24:00:00.000",
            "2026-01-01T00:00:00.00é",
            "1969-12-31T23:59:59.999",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_the_same(wall_ms in 0..253_402_300_800_000i64) {
            prop_assert_eq!(read(&write(wall_ms)), Some(wall_ms));
        }
    }
}
