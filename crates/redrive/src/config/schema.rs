//! The JSON Schema of `redrive.toml`, for editors.

/// The JSON Schema of `redrive.toml`. A test compares its keys with those that the readers request.
pub const SCHEMA: &str = include_str!("redrive.schema.json");

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};

    use serde_json::Value;

    use super::SCHEMA;

    /// A file that has every key everywhere it may stand.
    const MAXIMAL: &str = include_str!("../../../../tests/it/check/maximal.toml");

    #[test]
    fn the_schema_knows_exactly_the_keys_that_are_read() {
        let (_, log) = crate::config::read(MAXIMAL, Path::new("/"));
        let (problems, read) = log.into_parts();
        assert_eq!(problems, []);

        let schema: Value = serde_json::from_str(SCHEMA).unwrap();
        let mut described = BTreeSet::new();
        walk(&schema, &schema, "", &mut described);

        let only_read: Vec<_> = read.difference(&described).collect();
        let only_described: Vec<_> = described.difference(&read).collect();
        assert_eq!((only_read, only_described), (vec![], vec![]));
    }

    #[test]
    fn every_key_of_the_schema_is_described() {
        let schema: Value = serde_json::from_str(SCHEMA).unwrap();
        let definitions = schema["$defs"].as_object().unwrap().values();
        for object in definitions.chain([&schema]) {
            let properties = object["properties"].as_object().into_iter().flatten();
            for (key, property) in properties {
                let described = property.get("description").is_some()
                    || resolve(&schema, property).get("description").is_some();
                assert!(described, "{key} has no description");
            }
        }
    }

    /// Collects the keys that a schema describes, in the notation of `KeyPath::shape`.
    fn walk(root: &Value, schema: &Value, path: &str, keys: &mut BTreeSet<String>) {
        let schema = resolve(root, schema);
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            let dot = if path.is_empty() { "" } else { "." };
            let path = format!("{path}{dot}{key}");
            walk(root, property, &path, keys);
            keys.insert(path);
        }
        if let Some(named @ Value::Object(_)) = schema.get("additionalProperties") {
            let path = format!("{path}.*");
            walk(root, named, &path, keys);
            keys.insert(path);
        }
        if let Some(items) = schema.get("items") {
            walk(root, items, &format!("{path}[]"), keys);
        }
        for choice in schema["anyOf"].as_array().into_iter().flatten() {
            walk(root, choice, path, keys);
        }
    }

    fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str() {
            Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap(),
            None => schema,
        }
    }
}
