//! Tenant-scoped ids: the id of a tenant's resource begins with the tenant.

/// Separates tenant and id. No id may contain it.
const SEPARATOR: char = '\u{1f}';

/// The stored id of a tenant's resource. An empty tenant is none. An id with a separator would name the resource of
/// another tenant: it becomes one that no resource has.
pub fn scoped(tenant: &str, id: &str) -> String {
    let id = id.replace(SEPARATOR, "\u{1}");
    if tenant.is_empty() { id } else { format!("{tenant}{SEPARATOR}{id}") }
}

/// The tenant of a stored id; empty for none.
pub(super) fn tenant_of(id: &str) -> &str {
    id.rsplit_once(SEPARATOR).map_or("", |(tenant, _)| tenant)
}

/// The id as the user knows it, without the tenant.
pub fn unscoped(id: &str) -> &str {
    id.rsplit_once(SEPARATOR).map_or(id, |(_, id)| id)
}

/// The stored id of another resource of the same tenant.
pub fn beside(id: &str, other: &str) -> String {
    scoped(tenant_of(id), other)
}
