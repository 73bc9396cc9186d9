//! Which process sent a span: the incarnation of an instance of a service.
//!
//! Order and lag belong to one exporter queue, so what is known of one process says nothing about its sibling or its
//! successor. Many set `service.instance.id` to the name of the host; another process id, start, container or pod
//! under the same id is therefore another process.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::trace::Resource;
use crate::value::Value;

/// What tells a process from the others of its service.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Identity {
    /// The id; empty if the resource has none.
    pub id: Arc<str>,
    /// Whether the id belongs to one process. An address does not: several processes may send from it.
    pub is_named: bool,
    /// Whether the platform may stop the process between two calls, so that its spans come with the next one.
    pub can_freeze: bool,
}

/// The attributes of a resource that identify a process, as texts; empty where the resource has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ProcessAttributes<'a> {
    /// `service.namespace`.
    pub namespace: &'a str,
    /// `service.instance.id`.
    pub instance: &'a str,
    /// `k8s.pod.uid`.
    pub pod: &'a str,
    /// `k8s.container.name`.
    pub container_name: &'a str,
    /// `container.id`.
    pub container: &'a str,
    /// `faas.instance`.
    pub function: &'a str,
    /// `host.name`.
    pub host: &'a str,
    /// `process.creation.time`.
    pub created: &'a str,
    /// `process.pid`.
    pub process: Option<i64>,
    /// Whether `faas.name` or `cloud.platform` tells of a function.
    pub is_function: bool,
}

impl<'a> ProcessAttributes<'a> {
    /// Notes a text of the resource.
    pub fn note(&mut self, key: &str, text: &'a str) {
        match key {
            "service.namespace" => self.namespace = text,
            "service.instance.id" => self.instance = text,
            "k8s.pod.uid" => self.pod = text,
            "k8s.container.name" => self.container_name = text,
            "container.id" => self.container = text,
            "faas.instance" => self.function = text,
            "host.name" => self.host = text,
            "process.creation.time" => self.created = text,
            "faas.name" => self.is_function = true,
            "cloud.platform" => self.is_function |= FUNCTION_PLATFORMS.contains(&text),
            _ => {}
        }
    }

    /// Notes a number of the resource.
    pub fn note_number(&mut self, key: &str, number: i64) {
        if key == "process.pid" {
            self.process = Some(number);
        }
    }

    /// Reads the attributes off a resource.
    pub(super) fn read(resource: &'a Resource) -> Self {
        let mut attributes = Self::default();
        for (key, value) in resource.attributes.iter() {
            match value {
                Value::String(text) => attributes.note(key, text),
                Value::Int(number) => attributes.note_number(key, *number),
                _ => {}
            }
        }
        attributes
    }

    /// Identifies the process.
    pub fn identity(&self) -> Identity {
        let Self { instance, pod, container, function, host, process, .. } = *self;
        let is_named =
            [instance, pod, container, function].iter().any(|id| !id.is_empty()) || process.is_some();
        let mut id = match (instance, pod, container, function) {
            ("", "", "", "") => host.to_owned(),
            ("", "", "", function) => function.to_owned(),
            ("", "", container, _) => container.to_owned(),
            ("", pod, _, _) if self.container_name.is_empty() => pod.to_owned(),
            ("", pod, _, _) => format!("{pod}/{}", self.container_name),
            (instance, ..) => instance.to_owned(),
        };
        if is_named {
            self.add_incarnation(&mut id);
        }
        if !self.namespace.is_empty() && !id.is_empty() {
            id.insert_str(0, &format!("{}/", self.namespace));
        }
        Identity { id: id.into(), is_named, can_freeze: self.is_function || !function.is_empty() }
    }

    /// Adds what tells a process from its predecessor under the same id.
    fn add_incarnation(&self, id: &mut String) {
        if let Some(process) = self.process {
            let _ = write!(id, "/{process}");
        }
        for part in [self.created, self.container, self.pod] {
            if !part.is_empty() && !id.contains(part) {
                let _ = write!(id, "/{part}");
            }
        }
    }
}

/// Values of `cloud.platform` whose processes are stopped between two calls.
const FUNCTION_PLATFORMS: [&str; 8] = [
    "aws_lambda",
    "azure_functions",
    "azure.functions",
    "gcp_cloud_functions",
    "gcp_cloud_run",
    "alibaba_cloud_fc",
    "tencent_cloud_scf",
    "cloudflare_workers",
];

/// Whether a resource identifies its process.
pub fn names_process(resource: &Resource) -> bool {
    ProcessAttributes::read(resource).identity().is_named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(attributes: ProcessAttributes<'_>, id: &str, is_named: bool) {
        let identity = attributes.identity();
        assert_eq!((&*identity.id, identity.is_named), (id, is_named));
    }

    #[test]
    fn a_process_is_known_by_the_first_id_that_its_resource_has() {
        let none = ProcessAttributes::default();
        check(none, "", false);
        check(ProcessAttributes { host: "h", ..none }, "h", false);
        check(ProcessAttributes { host: "h", process: Some(7), ..none }, "h/7", true);
        check(ProcessAttributes { function: "f", host: "h", ..none }, "f", true);
        check(ProcessAttributes { container: "c", function: "f", ..none }, "c", true);
        check(ProcessAttributes { pod: "p", container_name: "app", ..none }, "p/app", true);
        check(ProcessAttributes { instance: "i", pod: "p", ..none }, "i/p", true);
        check(ProcessAttributes { instance: "i", namespace: "n", ..none }, "n/i", true);
    }

    #[test]
    fn a_restarted_process_is_another_one_under_the_same_id() {
        let first = ProcessAttributes { instance: "host", process: Some(411), ..Default::default() };
        let second = ProcessAttributes { process: Some(502), ..first };
        assert_ne!(first.identity(), second.identity());
        let (early, late) = (
            ProcessAttributes { created: "2026-01-01T00:00:00Z", process: Some(1), ..first },
            ProcessAttributes { created: "2026-01-01T00:05:00Z", process: Some(1), ..first },
        );
        assert_ne!(early.identity(), late.identity());
    }

    #[test]
    fn a_function_can_freeze() {
        let mut function = ProcessAttributes::default();
        function.note("cloud.platform", "aws_lambda");
        assert!(function.identity().can_freeze);
        let mut machine = ProcessAttributes::default();
        machine.note("cloud.platform", "aws_ec2");
        assert!(!machine.identity().can_freeze);
    }
}
