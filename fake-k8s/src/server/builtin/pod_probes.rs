//! Probes and lifecycle hooks of a container.
use serde_json::Value;

use super::checks::{Faults, count, items, number, text};

/// Checks the hooks and probes of a container that runs for long; `grace` is the pod's grace period.
pub fn check(faults: &mut Faults, at: &str, container: &Value, grace: &Value) {
    for hook in ["postStart", "preStop"] {
        let (handler, at) = (&container["lifecycle"][hook], format!("{at}.lifecycle.{hook}"));
        if !handler.is_null() {
            check_handler(faults, &at, handler, &["exec", "httpGet", "tcpSocket", "sleep"], grace);
        }
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let (probe, at) = (&container[kind], format!("{at}.{kind}"));
        if probe.is_null() {
            continue;
        }
        check_probe(faults, &at, probe, grace);
        if kind == "readinessProbe" {
            let seconds = &probe["terminationGracePeriodSeconds"];
            if !seconds.is_null() {
                let at = format!("{at}.terminationGracePeriodSeconds");
                faults.invalid(at, seconds.clone(), "must not be set for readinessProbes");
            }
        } else if number(&probe["successThreshold"]) != 1 {
            faults.invalid(format!("{at}.successThreshold"), number(&probe["successThreshold"]), "must be 1");
        }
    }
}

fn check_probe(faults: &mut Faults, at: &str, probe: &Value, grace: &Value) {
    check_handler(faults, at, probe, &["exec", "httpGet", "tcpSocket", "grpc"], grace);
    for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        faults.not_negative(format!("{at}.{field}"), &probe[field]);
    }
    let seconds = &probe["terminationGracePeriodSeconds"];
    if !seconds.is_null() && number(seconds) <= 0 {
        faults.invalid(format!("{at}.terminationGracePeriodSeconds"), number(seconds), "must be greater than 0");
    }
}

fn check_handler(faults: &mut Faults, at: &str, handler: &Value, kinds: &[&str], grace: &Value) {
    let mut found = 0;
    for kind in kinds.iter().filter(|kind| !handler[**kind].is_null()) {
        let (action, at) = (&handler[*kind], format!("{at}.{kind}"));
        if found > 0 {
            faults.forbidden(at, "may not specify more than 1 handler type");
            continue;
        }
        found += 1;
        match *kind {
            "exec" if count(&action["command"]) == 0 => faults.required(format!("{at}.command"), ""),
            "httpGet" => check_http(faults, &at, action),
            "tcpSocket" => faults.port(&format!("{at}.port"), &action["port"]),
            "grpc" => faults.port_number(format!("{at}.port"), number(&action["port"])),
            "sleep" => check_sleep(faults, &at, number(&action["seconds"]), grace),
            _ => {}
        }
    }
    if found == 0 {
        faults.required(at, "must specify a handler type");
    }
}

fn check_http(faults: &mut Faults, at: &str, action: &Value) {
    if text(&action["path"]).is_empty() {
        faults.required(format!("{at}.path"), "");
    }
    faults.port(&format!("{at}.port"), &action["port"]);
    faults.one_of(format!("{at}.scheme"), &action["scheme"], &["HTTP", "HTTPS"]);
    for (_, header) in items(&action["httpHeaders"]) {
        let name = text(&header["name"]);
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            let why = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
            faults.invalid(format!("{at}.httpHeaders"), name, why);
        }
    }
}

fn check_sleep(faults: &mut Faults, at: &str, seconds: i64, grace: &Value) {
    if let Some(grace) = grace.as_i64().filter(|grace| !(0..=*grace).contains(&seconds)) {
        let why = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        faults.invalid(at, seconds, why);
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "JSON is written where it is passed")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn handlers_are_checked() {
        let said = |container: Value| {
            let mut faults = Faults::default();
            check(&mut faults, "c", &container, &json!(30));
            faults.0.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let nothing: [&str; 0] = [];
        let probe = |handler: Value| {
            let mut probe = handler;
            probe["successThreshold"] = json!(1);
            said(json!({"livenessProbe": probe}))
        };
        assert_eq!(probe(json!({"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}})), nothing);
        assert_eq!(probe(json!({})), ["c.livenessProbe: Required value: must specify a handler type"]);
        assert_eq!(probe(json!({"exec": {}})), ["c.livenessProbe.exec.command: Required value"]);
        assert_eq!(
            probe(json!({"tcpSocket": {"port": "12"}})),
            ["c.livenessProbe.tcpSocket.port: Invalid value: \"12\": must contain at least one letter (a-z)"]
        );
        assert_eq!(
            said(json!({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}})),
            [
                "c.lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)"
            ]
        );
    }
}
