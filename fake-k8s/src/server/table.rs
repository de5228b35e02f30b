//! Tables: how `kubectl get` sees objects, with the columns of Kubernetes or of the definition.
use jiff::Timestamp;
use serde_json::{Value, json};

use super::resource::{Column, ResourceInfo};
use super::{json_path, object};

mod builtin;

/// What of an object is sent along with its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// Its metadata: the default.
    Metadata,
    /// All of it.
    Object,
}

/// The Table of these objects.
pub fn table(
    info: &ResourceInfo,
    objects: &[Value],
    metadata: &Value,
    include: IncludeObject,
    now: Timestamp,
) -> Value {
    let columns: Vec<Column> = if info.custom { custom_columns(info) } else { builtin::columns(info) };
    let definitions: Vec<Value> = columns
        .iter()
        .map(|c| json!({"name": c.name, "type": c.kind, "format": c.format, "description": c.description, "priority": c.priority}))
        .collect();
    let row = |o: &Value| {
        let cells = if info.custom { custom_cells(o, &columns, now) } else { builtin::cells(info, o, now) };
        let mut row = json!({"cells": cells});
        match include {
            IncludeObject::None => {}
            IncludeObject::Object => row["object"] = o.clone(),
            IncludeObject::Metadata => {
                row["object"] =
                    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": o["metadata"]});
            }
        }
        row
    };
    let rows: Vec<Value> = objects.iter().map(row).collect();
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": definitions, "rows": rows})
}

fn column(name: &str, kind: &str, priority: i32) -> Column {
    let format = if name == "Name" { "name" } else { "" };
    Column { name: name.into(), kind: kind.into(), format: format.into(), priority, ..Column::default() }
}

fn custom_columns(info: &ResourceInfo) -> Vec<Column> {
    let mut columns = vec![column("Name", "string", 0)];
    if info.columns.is_empty() {
        let path = ".metadata.creationTimestamp".into();
        columns.push(Column { json_path: path, ..column("Age", "date", 0) });
    }
    columns.extend(info.columns.iter().cloned());
    columns
}

fn custom_cells(value: &Value, columns: &[Column], now: Timestamp) -> Vec<Value> {
    let mut cells = vec![json!(object::name(value))];
    for column in &columns[1..] {
        let found = json_path::find(value, &column.json_path);
        let cell = match (found.as_slice(), column.kind.as_str()) {
            ([], _) | ([Value::Null], _) => Value::Null,
            ([first, ..], "date") => json!(age_of(first, now)),
            ([first, ..], "integer" | "number" | "boolean") => (*first).clone(),
            (all, _) => {
                let text = |v: &&Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
                json!(all.iter().map(text).collect::<Vec<_>>().join(","))
            }
        };
        cells.push(cell);
    }
    cells
}

/// How long ago a moment on the wire was.
fn age_of(moment: &Value, now: Timestamp) -> String {
    match moment.as_str().and_then(|t| t.parse::<Timestamp>().ok()) {
        Some(then) => human_duration(now.as_second() - then.as_second()),
        None => "<unknown>".into(),
    }
}

/// Two digits of precision, as Kubernetes prints durations.
pub fn human_duration(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let two = |big: i64, unit: &str, small: i64, part: &str| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{part}") }
    };
    match seconds {
        i64::MIN..=-2 => "<invalid>".into(),
        -1 => "0s".into(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => two(hours / 24, "d", hours % 24, "h"),
        _ if hours < 24 * 365 * 2 => format!("{}d", hours / 24),
        _ if hours < 24 * 365 * 8 => two(hours / 24 / 365, "y", hours / 24 % 365, "d"),
        _ => format!("{}y", hours / 24 / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_in_kubernetes() {
        for (seconds, text) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (10_800, "3h"),
            (11_100, "3h5m"),
            (28_800, "8h"),
            (172_800, "2d"),
            (176_400, "2d1h"),
            (691_200, "8d"),
            (-5, "<invalid>"),
        ] {
            assert_eq!(human_duration(seconds), text);
        }
    }
}
