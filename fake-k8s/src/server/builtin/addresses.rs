//! IP addresses and networks as the API takes them: leniently, with a warning where a form is no longer liked.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::checks::Faults;

/// Reads an address as Go once did: octets may begin with zeros.
pub fn parse(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().ok().map(|a| a.to_ipv4_mapped().map_or(IpAddr::V6(a), IpAddr::V4));
    }
    let octets: Vec<u8> = text.split('.').map(octet).collect::<Option<_>>()?;
    let octets: [u8; 4] = octets.try_into().ok()?;
    Some(IpAddr::V4(Ipv4Addr::from(octets)))
}

fn octet(text: &str) -> Option<u8> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// An address and the length of its network's prefix.
fn parse_network(text: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = text.split_once('/')?;
    let address = parse(address)?;
    let all_digits = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
    let bits: u32 = if all_digits { bits.parse().ok()? } else { return None };
    let most = if address.is_ipv4() { 32 } else { 128 };
    (bits <= most).then_some((address, bits))
}

/// The first address of the network.
fn base(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(a) => IpAddr::V4(Ipv4Addr::from(u32::from(a) & u32::MAX.checked_shl(32 - bits).unwrap_or(0))),
        IpAddr::V6(a) => IpAddr::V6(Ipv6Addr::from(u128::from(a) & u128::MAX.checked_shl(128 - bits).unwrap_or(0))),
    }
}

/// Is it an IPv6 address?
pub fn is_v6(text: &str) -> bool {
    matches!(parse(text), Some(IpAddr::V6(_)))
}

/// An address in any form that is known; true when it is one.
pub fn check(faults: &mut Faults, field: &str, text: &str) -> bool {
    let known = parse(text).is_some();
    if !known {
        faults.invalid(field, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    }
    known
}

/// An address in the one form that new fields take.
pub fn check_strictly(faults: &mut Faults, field: &str, text: &str) -> bool {
    let Some(address) = parse(text) else { return check(faults, field, text) };
    let before = faults.0.len();
    match text.parse::<IpAddr>() {
        Err(_) => faults.invalid(field, text, "must not have leading 0s"),
        Ok(IpAddr::V6(a)) if a.to_ipv4_mapped().is_some() => {
            faults.invalid(field, text, "must not be an IPv4-mapped IPv6 address");
        }
        Ok(_) if address.to_string() != text => {
            faults.invalid(field, text, format!("must be in canonical form (\"{address}\")"));
        }
        Ok(_) => {}
    }
    faults.0.len() == before
}

/// An address that something in the cluster can be reached at.
pub fn check_endpoint(faults: &mut Faults, field: &str, text: &str) {
    let Some(address) = parse(text) else { return faults.invalid(field, text, "must be a valid IP address") };
    let (link_local, link_local_multicast) = match address {
        IpAddr::V4(a) => (a.is_link_local(), a.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(a) => (a.segments()[0] & 0xffc0 == 0xfe80, a.segments()[0] & 0xff0f == 0xff02),
    };
    if address.is_unspecified() {
        faults.invalid(field, text, format!("may not be unspecified ({text})"));
    }
    if address.is_loopback() {
        faults.invalid(field, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    if link_local {
        faults.invalid(field, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if link_local_multicast {
        faults.invalid(field, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

/// A network in any form that is known.
pub fn check_network(faults: &mut Faults, field: &str, text: &str) {
    if parse_network(text).is_none() {
        faults.invalid(field, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
    }
}

/// What is said of an address that is taken, but should be written otherwise.
pub fn warning(field: &str, text: &str) -> Option<String> {
    let address = parse(text)?;
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(a)) if a.to_ipv4_mapped().is_none() => (a.to_string() != text)
            .then(|| format!("{field}: IPv6 address {text:?} should be in RFC 5952 canonical format (\"{a}\")")),
        Ok(IpAddr::V4(_)) => None,
        _ => Some(format!(
            "{field}: non-standard IP address {text:?} will be considered invalid in a future Kubernetes release: use \"{address}\""
        )),
    }
}

/// The same for a network.
pub fn network_warnings(field: &str, text: &str) -> Vec<String> {
    let Some((address, bits)) = parse_network(text) else { return Vec::new() };
    let (first, mut warnings) = (base(address, bits), Vec::new());
    let most = if address.is_ipv4() { 32 } else { 128 };
    if first != address {
        warnings.push(format!(
            "{field}: CIDR value {text:?} is ambiguous in this context (should be \"{first}/{bits}\" or \"{address}/{most}\"?)"
        ));
    }
    let (written, length) = text.split_once('/').unwrap_or((text, ""));
    let plain = written.parse::<IpAddr>().is_ok_and(|a| a == address) && length == bits.to_string();
    if !plain {
        warnings.push(format!(
            "{field}: non-standard CIDR value {text:?} will be considered invalid in a future Kubernetes release: use \"{first}/{bits}\""
        ));
    }
    if warnings.is_empty() && address.is_ipv6() && format!("{address}/{bits}") != text {
        warnings.push(format!(
            "{field}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format (\"{address}/{bits}\")"
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(check: impl Fn(&mut Faults)) -> Vec<String> {
        let mut faults = Faults::default();
        check(&mut faults);
        faults.0.iter().map(|e| e.detail.clone()).collect()
    }

    #[test]
    fn addresses_are_judged_as_kubernetes_does() {
        for (address, details) in [
            ("10.0.0.1", vec![]),
            ("010.0.0.1", vec![]),
            ("nowhere", vec!["must be a valid IP address"]),
            ("127.0.0.1", vec!["may not be in the loopback range (127.0.0.0/8, ::1/128)"]),
            ("0.0.0.0", vec!["may not be unspecified (0.0.0.0)"]),
            ("169.254.1.1", vec!["may not be in the link-local range (169.254.0.0/16, fe80::/10)"]),
            ("224.0.0.1", vec!["may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"]),
        ] {
            assert_eq!(said(|f| check_endpoint(f, "ip", address)), details, "{address}");
        }
        assert_eq!(said(|f| assert!(!check_strictly(f, "ip", "010.0.0.1"))), ["must not have leading 0s"]);
        assert_eq!(
            said(|f| assert!(!check_strictly(f, "ip", "fe80:0::1"))),
            ["must be in canonical form (\"fe80::1\")"]
        );
    }

    #[test]
    fn forms_that_are_on_their_way_out_earn_a_warning() {
        assert_eq!(warning("ip", "10.0.0.1"), None);
        assert_eq!(
            warning("ip", "010.0.0.1").as_deref(),
            Some(
                "ip: non-standard IP address \"010.0.0.1\" will be considered invalid in a future Kubernetes release: use \"10.0.0.1\""
            )
        );
        assert_eq!(network_warnings("c", "10.0.0.0/8"), Vec::<String>::new());
        assert_eq!(
            network_warnings("c", "10.0.0.1/8"),
            [
                "c: CIDR value \"10.0.0.1/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.0.0.1/32\"?)"
            ]
        );
    }
}
