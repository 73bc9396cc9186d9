//! Ids as the store knows them: those of a tenant begin with the tenant.

/// Stands between a tenant and an id. No id may contain it.
const SEPARATOR: char = '\u{1f}';

/// An id of a tenant, as the store knows it. An empty tenant is none.
pub fn scoped(tenant: &str, id: &str) -> String {
    if tenant.is_empty() { id.to_owned() } else { format!("{tenant}{SEPARATOR}{id}") }
}

/// An id as the user knows it.
pub fn unscoped(id: &str) -> &str {
    id.rsplit_once(SEPARATOR).map_or(id, |(_, id)| id)
}

/// Another id of the tenant that this one belongs to.
pub fn beside(id: &str, other: &str) -> String {
    scoped(id.rsplit_once(SEPARATOR).map_or("", |(tenant, _)| tenant), other)
}
