//! Quantities (`resource.Quantity` of apimachinery) in their one canonical spelling.

/// What a string that is none is answered with.
pub(super) const MUST_MATCH: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// As in `1Gi`, `500m`, `1e3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Binary,
    Decimal,
    Exponent,
}

const DECIMAL: &[(&str, i32)] =
    &[("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: &[(&str, u32)] = &[("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
/// Everything is counted in billionths, the smallest part that a quantity has.
const NANO: i128 = 1_000_000_000;

/// The canonical spelling; `None` for what is no quantity.
pub(super) fn canonical(text: &str) -> Option<String> {
    let (nanos, format) = parse(text.trim())?;
    Some(write(nanos, format))
}

fn parse(text: &str) -> Option<(i128, Format)> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && part.is_empty()) || part.contains('.') {
        return None;
    }
    let digits: i128 = format!("0{whole}{part}").parse().ok()?;
    let places = i32::try_from(part.len()).ok()?;
    let nanos = if let Some((_, bits)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        let scaled = digits.checked_mul(1i128 << bits)?.checked_mul(NANO)?;
        return Some((sign(round(scaled, places)?, negative), Format::Binary));
    } else if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        (shift(digits, exponent - places + 9)?, Format::Decimal)
    } else {
        let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
        (shift(digits, exponent.checked_sub(places)?.checked_add(9)?)?, Format::Exponent)
    };
    Some((sign(nanos.0, negative), nanos.1))
}

fn sign(value: i128, negative: bool) -> i128 {
    if negative { -value } else { value }
}

fn shift(digits: i128, exponent: i32) -> Option<i128> {
    if exponent >= 0 {
        digits.checked_mul(10i128.checked_pow(exponent.unsigned_abs())?)
    } else {
        round(digits, -exponent)
    }
}

/// Divides by a power of ten; what is less than the smallest part counts as one.
fn round(value: i128, places: i32) -> Option<i128> {
    let divisor = 10i128.checked_pow(u32::try_from(places).ok()?)?;
    Some((value + divisor - 1) / divisor)
}

fn write(nanos: i128, format: Format) -> String {
    if nanos == 0 {
        return "0".into();
    }
    let small = nanos.abs() < 1024 * NANO;
    if format == Format::Binary && !small && nanos % NANO == 0 {
        let (mut value, mut suffix) = (nanos / NANO, "");
        for (name, _) in BINARY {
            if value % 1024 != 0 {
                break;
            }
            (value, suffix) = (value / 1024, name);
        }
        return format!("{value}{suffix}");
    }
    let (mut value, mut steps) = (nanos, 0usize);
    while value % 1000 == 0 && steps + 1 < DECIMAL.len() {
        (value, steps) = (value / 1000, steps + 1);
    }
    let (suffix, exponent) = DECIMAL[steps];
    match format {
        Format::Exponent if exponent != 0 => format!("{value}e{exponent}"),
        Format::Exponent => value.to_string(),
        Format::Binary | Format::Decimal => format!("{value}{suffix}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_one_spelling() {
        for (given, expected) in [
            ("1", "1"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.5Gi", "1536Mi"),
            ("1024Mi", "1Gi"),
            ("1024Ki", "1Mi"),
            ("512", "512"),
            ("1000", "1k"),
            ("100Ki", "100Ki"),
            ("1e3", "1e3"),
            ("12e6", "12e6"),
            ("0.001", "1m"),
            ("-1", "-1"),
            ("0Gi", "0"),
            ("1Ki", "1Ki"),
            ("0.5Ki", "512"),
        ] {
            assert_eq!(canonical(given).as_deref(), Some(expected), "{given}");
        }
        for none in ["", "much", "1.2.3", "1Xi", "e3", "1e", "."] {
            assert_eq!(canonical(none), None, "{none}");
        }
    }
}
