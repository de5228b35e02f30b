//! Amounts of resources: `500m`, `1Gi`, `1e3`. Compared exactly, shown as Kubernetes shows them.
use serde_json::Value;

/// What is no quantity is answered with.
pub const MUST_MATCH: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// An amount in thousandths of a thousandth of a thousandth: what the smallest unit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity {
    nano: i128,
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Format {
    Decimal,
    Binary,
    Exponent,
}

const NANO: i128 = 1_000_000_000;
const BINARY: &[(&str, u32)] = &[("Ei", 6), ("Pi", 5), ("Ti", 4), ("Gi", 3), ("Mi", 2), ("Ki", 1)];
const DECIMAL: &[(&str, i32)] =
    &[("E", 18), ("P", 15), ("T", 12), ("G", 9), ("M", 6), ("k", 3), ("", 0), ("m", -3), ("u", -6), ("n", -9)];

impl Quantity {
    /// From the text or number that JSON has; `None` where that is no quantity.
    pub fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text.trim()),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => None,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit() && !"+-.".contains(c)).unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let (format, binary, exponent) = read_suffix(suffix)?;
        let (negative, digits) = match number.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, number.strip_prefix('+').unwrap_or(number)),
        };
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        if (whole.is_empty() && part.is_empty()) || !(whole.chars().chain(part.chars())).all(|c| c.is_ascii_digit()) {
            return None;
        }
        let mut value: i128 = format!("{whole}{part}").parse().ok()?;
        // What is smaller than the smallest unit is rounded up.
        let shift = exponent + 9 - i32::try_from(part.len()).ok()?;
        value = value.checked_mul(1024_i128.checked_pow(binary)?)?;
        let factor = 10_i128.checked_pow(shift.unsigned_abs())?;
        value = if shift >= 0 { value.checked_mul(factor)? } else { (value + factor - 1) / factor };
        Some(Self { nano: if negative { -value } else { value }, format })
    }

    /// Less than nothing?
    pub fn is_negative(self) -> bool {
        self.nano < 0
    }

    /// Nothing at all?
    pub fn is_zero(self) -> bool {
        self.nano == 0
    }

    /// A whole number of units?
    pub fn is_whole(self) -> bool {
        self.nano % NANO == 0
    }

    /// Which is more, however they are written.
    pub fn compare(self, other: Self) -> std::cmp::Ordering {
        self.nano.cmp(&other.nano)
    }

    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Self { nano: self.nano.saturating_add(other.nano), ..self }
    }

    /// A whole multiple of the other?
    pub fn is_multiple_of(self, other: Self) -> bool {
        other.nano != 0 && self.nano % other.nano == 0
    }

    /// What is smaller than a thousandth is rounded up to one, as the API server keeps quantities.
    pub fn rounded(self) -> Self {
        let step = NANO / 1000;
        Self { nano: self.nano.div_euclid(step) * step + if self.nano.rem_euclid(step) > 0 { step } else { 0 }, ..self }
    }
}

fn read_suffix(suffix: &str) -> Option<(Format, u32, i32)> {
    if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some((Format::Binary, *power, 0));
    }
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((Format::Decimal, 0, *power));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?;
    (exponent.abs() <= 27).then_some((Format::Exponent, 0, exponent))
}

impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.nano == 0 {
            return f.write_str("0");
        }
        let whole = self.nano / NANO;
        // Small amounts, and what is no whole number, are never written in powers of 1024.
        if self.format == Format::Binary && self.nano % NANO == 0 && whole.abs() >= 1024 {
            let fits = BINARY.iter().find(|(_, power)| whole % 1024_i128.pow(*power) == 0);
            return match fits {
                Some((name, power)) => write!(f, "{}{name}", whole / 1024_i128.pow(*power)),
                None => write!(f, "{whole}"),
            };
        }
        let fits = DECIMAL.iter().find(|(_, power)| self.nano % 10_i128.pow((power + 9).unsigned_abs()) == 0);
        let (name, power) = fits.copied().unwrap_or(("n", -9));
        let number = self.nano / 10_i128.pow((power + 9).unsigned_abs());
        match (self.format, power) {
            (Format::Exponent, 0) => write!(f, "{number}"),
            (Format::Exponent, _) => write!(f, "{number}e{power}"),
            _ => write!(f, "{number}{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_shown_in_their_shortest_form() {
        for (text, shown) in [
            ("1", "1"),
            ("0.5", "500m"),
            ("1000m", "1"),
            ("64Mi", "64Mi"),
            ("1024Ki", "1Mi"),
            ("1500Mi", "1500Mi"),
            ("0.5Gi", "512Mi"),
            ("100Ki", "100Ki"),
            ("1e3", "1e3"),
            ("1000", "1k"),
            ("0", "0"),
            ("-1", "-1"),
            ("100u", "100u"),
        ] {
            assert_eq!(Quantity::parse(text).map(|q| q.to_string()).as_deref(), Some(shown), "{text}");
        }
        for wrong in ["", "much", "1.2.3", "1KB", "--1", "."] {
            assert_eq!(Quantity::parse(wrong), None, "{wrong}");
        }
        let [half, whole] = ["1u", "1m"].map(|t| Quantity::parse(t).unwrap());
        assert_eq!(half.rounded().compare(whole), std::cmp::Ordering::Equal);
    }
}
