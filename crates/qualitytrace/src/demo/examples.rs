//! The definition files of `examples/shop`, embedded in the binary so that the demo works anywhere.

/// One file: its name and its text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Example {
    pub(crate) file: &'static str,
    pub(crate) text: &'static str,
}

macro_rules! examples {
    ($($file:literal),* $(,)?) => {
        [$(Example {
            file: $file,
            text: include_str!(concat!("../../../../examples/shop/", $file)),
        }),*]
    };
}

/// Every definition file, in reading order.
pub(crate) const EXAMPLES: [Example; 9] = examples![
    "list-products.yaml",
    "show-product.yaml",
    "unknown-product.yaml",
    "show-cart.yaml",
    "declined-card.yaml",
    "buy.yaml",
    "add-to-cart.yaml",
    "checkout.yaml",
    "track-order.yaml",
];

#[cfg(test)]
mod tests {
    use qualitytrace_core::definition::{self, Format};

    use super::*;

    #[test]
    fn every_example_of_the_folder_is_in_the_binary() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/shop");
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut on_disk: Vec<_> = names.filter_map(|name| name.into_string().ok()).collect();
        on_disk.retain(|name| name != "catalogue.proto");
        on_disk.sort();
        let mut embedded = EXAMPLES.map(|example| example.file).to_vec();
        embedded.sort_unstable();
        assert_eq!(embedded, on_disk);
        assert!(EXAMPLES.iter().all(|example| example.text.starts_with("# ")));
    }

    #[test]
    fn every_example_reads_without_a_remark() {
        for example in EXAMPLES {
            let reading = definition::read(example.text, Format::Yaml);
            assert!(reading.diagnostics.is_empty(), "{}: {:?}", example.file, reading.diagnostics);
            assert_eq!(reading.documents.len(), 1, "{}", example.file);
        }
    }
}
