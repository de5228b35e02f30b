//! The differences that we know of and leave: each is stricter than the real server, or something that clients may not rely
//! on, and says where that is written.
use super::compare::Difference;

/// A difference that is left as it is.
#[derive(Debug)]
pub struct Known {
    /// What it is, in a sentence.
    pub what: &'static str,
    /// Why it may stay, and where that is written.
    pub why: &'static str,
    matches: fn(&Difference) -> bool,
}

/// All of them.
pub const KNOWN: &[Known] = &[];

/// The entry that covers this difference.
pub fn known(difference: &Difference) -> Option<&'static Known> {
    KNOWN.iter().find(|known| (known.matches)(difference))
}
