//! The two files of the AWS tools, `credentials` and `config`, as far as a Secret for S3 holds them.
//!
//! Of the profile `default` only keys, session token and region are taken. What would mean asking somebody else for
//! credentials (roles, single sign-on, processes) is refused by name, so that nobody wonders whose keys were used.

use std::collections::BTreeMap;

/// What the profile `default` says.
#[derive(PartialEq, Eq)]
pub struct AwsProfile {
    pub access_key_id: String,
    pub secret_access_key: String,
    pub session_token: Option<String>,
    pub region: Option<String>,
}

/// Settings that make the profile depend on somebody else.
const NOT_SUPPORTED: &[&str] = &[
    "role_arn",
    "source_profile",
    "credential_process",
    "credential_source",
    "web_identity_token_file",
    "sso_session",
];

impl AwsProfile {
    /// From both files; `credentials` wins where both say something.
    pub fn parse(credentials: &str, config: &str) -> Result<Self, String> {
        let mut settings = default_profile("config", config)?;
        settings.extend(default_profile("credentials", credentials)?);
        if let Some(setting) = NOT_SUPPORTED.iter().find(|&&setting| settings.contains_key(setting)) {
            return Err(format!(
                "`{setting}` in profile `default` is not supported; supported are aws_access_key_id, \
                 aws_secret_access_key, aws_session_token and region"
            ));
        }
        let mut take = |name: &str| settings.remove(name).filter(|value| !value.is_empty());
        let required = |name: &str, value: Option<String>| {
            value.ok_or_else(|| format!("`credentials` must have {name} in profile `default`"))
        };
        Ok(Self {
            access_key_id: required("aws_access_key_id", take("aws_access_key_id"))?,
            secret_access_key: required("aws_secret_access_key", take("aws_secret_access_key"))?,
            session_token: take("aws_session_token"),
            region: take("region"),
        })
    }
}

/// The settings of the profile `default`, by lower-case name. Settings below a setting (indented, after an empty value)
/// are skipped. Errors give the line's number and not its words.
fn default_profile(file: &str, text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut settings = BTreeMap::new();
    let (mut in_default, mut nested) = (false, false);
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(section) = trimmed.strip_prefix('[') {
            let name = section.split(']').next().unwrap_or_default().trim();
            in_default = name.trim_start_matches("profile ").trim() == "default";
            nested = false;
            continue;
        }
        if nested && line.starts_with([' ', '\t']) {
            continue;
        }
        let Some((name, value)) = trimmed.split_once('=') else {
            return Err(format!("`{file}` line {}: expected [section] or name = value", number + 1));
        };
        let value = without_comment(value.trim());
        nested = value.is_empty();
        if in_default {
            settings.insert(name.trim().to_ascii_lowercase(), value.to_owned());
        }
    }
    Ok(settings)
}

/// A comment in a line begins after white space; a `#` within a key is part of it.
fn without_comment(value: &str) -> &str {
    let end = [" #", "\t#", " ;", "\t;"].iter().filter_map(|mark| value.find(mark)).min();
    value[..end.unwrap_or(value.len())].trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_profile_of_both_files_is_taken() {
        let credentials = "# mine\n[other]\naws_access_key_id = NO\n[default]\naws_access_key_id = AKIA\n\
                           AWS_SECRET_ACCESS_KEY=a/b+c#d= ; new\n\n[more]\naws_access_key_id=NO\n";
        let config = "[profile default]\ns3 =\n  max_concurrent_requests = 2\nregion = eu-west-1\n";
        let profile = AwsProfile::parse(credentials, config).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(profile.access_key_id, "AKIA");
        assert_eq!(profile.secret_access_key, "a/b+c#d=");
        assert_eq!(profile.region.as_deref(), Some("eu-west-1"));
        assert_eq!(profile.session_token, None);
    }

    #[test]
    fn what_is_missing_or_not_supported_is_named_and_no_value_is_shown() {
        let error = |credentials: &str, config: &str| AwsProfile::parse(credentials, config).err().unwrap_or_default();
        let keys = "[default]\naws_access_key_id = A\naws_secret_access_key = hush\n";
        assert!(error("", "").contains("aws_access_key_id"));
        assert!(error("[default]\naws_access_key_id = A\n", "").contains("aws_secret_access_key"));
        assert!(error(keys, "[default]\nrole_arn = arn:aws:iam::1:role/x\n").contains("`role_arn`"));
        assert!(error("[default]\naws_secret_access_key hush\n", "").contains("line 2"));
        for text in [error(keys, "[default]\nrole_arn = hush"), error("[default]\nhush\n", "")] {
            assert!(!text.contains("hush"), "{text}");
        }
        assert_eq!(error(keys, ""), "");
    }
}
