//! Decimal numbers as Kafka's DOUBLE configs take them, in whole millionths.

/// `0.5`, `-1`, `1.5E3`: in millionths, at most what an i64 holds; digits beyond the sixth after the point are dropped.
pub fn millionths(text: &str) -> Option<i64> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || whole.chars().chain(fraction.chars());
    if whole.is_empty() && fraction.is_empty() || !digits().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let point = i32::try_from(whole.len()).ok()?.checked_add(exponent)?.checked_add(6)?;
    let mut value: i64 = 0;
    let mut rest = digits();
    // Before the point come all digits that there are, and zeros after them.
    for _ in 0..point.min(400) {
        let digit = rest.next().and_then(|c| c.to_digit(10)).unwrap_or(0);
        value = value.saturating_mul(10).saturating_add(i64::from(digit));
    }
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<i64>) {
        assert_eq!(millionths(text), expected, "{text}");
    }

    #[test]
    fn a_decimal_number_reads_as_millionths() {
        check("0.5", Some(500_000));
        check("1", Some(1_000_000));
        check(".25", Some(250_000));
        check("-0.000001", Some(-1));
        check("0.0000019", Some(1));
        check("1.5E3", Some(1_500_000_000));
        check("5e-2", Some(50_000));
        check("1e-9", Some(0));
        check("1.7976931348623157E308", Some(i64::MAX));
    }

    #[test]
    fn what_is_no_number_is_none() {
        for text in ["", ".", "-", "a", "1.2.3", "1e", "0x1", "NaN", "1e99999999999", "1,5"] {
            check(text, None);
        }
    }
}
