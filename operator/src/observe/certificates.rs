//! From when until when the certificates in a Secret are valid, by what they say themselves. Whether anybody trusts them is
//! for those who meet them to find out.

use jiff::Timestamp;
use x509_parser::pem::Pem;
use x509_parser::time::ASN1Time;

use crate::model::Validity;

/// Of the certificate that is presented: the first in the file.
///
/// # Errors
/// When there is none, in words for status.
pub fn presented(pem: &[u8]) -> Result<Validity, String> {
    Ok(validities(pem)?.remove(0))
}

/// Of a bundle of authorities: as long as one of them is.
///
/// # Errors
/// When there is none, in words for status.
pub fn authorities(pem: &[u8]) -> Result<Validity, String> {
    let all = validities(pem)?;
    let (from, until) = (all.iter().map(|one| one.from).min(), all.iter().map(|one| one.until).max());
    Ok(Validity { from: from.unwrap_or_default(), until: until.unwrap_or_default() })
}

/// At least one.
fn validities(pem: &[u8]) -> Result<Vec<Validity>, String> {
    let mut found = Vec::new();
    for block in Pem::iter_from_buffer(pem) {
        let block = block.map_err(|error| format!("it is not PEM: {error}"))?;
        if block.label != "CERTIFICATE" {
            continue;
        }
        let certificate = block.parse_x509().map_err(|error| format!("it is no X.509 certificate: {error}"))?;
        let validity = certificate.validity();
        found.push(Validity { from: time(validity.not_before), until: time(validity.not_after) });
    }
    if found.is_empty() { Err("it holds no PEM certificate".to_owned()) } else { Ok(found) }
}

/// X.509 says year 9999 for "no end".
fn time(time: ASN1Time) -> Timestamp {
    Timestamp::from_second(time.timestamp()).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(from: i32, until: i32) -> String {
        let mut params = rcgen::CertificateParams::new(vec!["c".to_owned()]).expect("a name");
        params.not_before = rcgen::date_time_ymd(from, 1, 1);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        let key = rcgen::KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").pem()
    }

    fn new_year(year: i16) -> Timestamp {
        format!("{year}-01-01T00:00:00Z").parse().expect("a time")
    }

    #[test]
    fn the_first_is_presented_and_one_authority_is_enough() {
        let bundle = format!("{}{}", certificate(2020, 2021), certificate(2021, 2031));
        let is = |from, until| Ok(Validity { from: new_year(from), until: new_year(until) });
        assert_eq!(presented(bundle.as_bytes()), is(2020, 2021));
        assert_eq!(authorities(bundle.as_bytes()), is(2020, 2031));
    }

    #[test]
    fn what_is_no_certificate_is_said() {
        let key = rcgen::KeyPair::generate().expect("a key").serialize_pem();
        let rotten = "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n";
        let cut = "-----BEGIN CERTIFICATE-----\nYWJj\n";
        for (pem, words) in [("", "no PEM"), ("a", "no PEM"), (&key, "no PEM"), (rotten, "no X.509"), (cut, "not PEM")]
        {
            let why = presented(pem.as_bytes()).expect_err("it is none");
            assert!(why.contains(words), "{why}");
            assert_eq!(authorities(pem.as_bytes()), Err(why));
        }
    }
}
