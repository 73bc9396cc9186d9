//! Registration of routes, each with the permission that it needs and its description, so that none can be served
//! without them.
//!
//! `Routes` is the only way from a handler to a socket. It tells every layer around a handler what the request needs
//! (`Needed`); it does not decide which client has that permission.

pub(crate) mod operation;

use std::convert::Infallible;

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{self, MethodFilter, MethodRouter};
use http::Method;
use tower::{Layer, Service};

use crate::http::access::RequiredAccess;
use operation::Operation;

/// A route, and the permission that it needs.
#[derive(Debug, Clone)]
pub struct Route {
    /// The method; `None` for all.
    pub method: Option<Method>,
    /// The path, with `{name}` for each parameter.
    pub path: String,
    /// The permission that it needs.
    pub wanted: RequiredAccess,
    /// Its part of the API's description; `None` if it is hidden there.
    pub(crate) operation: Option<Operation>,
}

/// The permission that a request needs, in its extensions for every layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Needed {
    pub(crate) wanted: RequiredAccess,
    /// Whether a handler is registered for its method. If not, the response is 404 or 405, whatever the request
    /// contains.
    pub(crate) is_registered: bool,
    /// Whether the handler measures what the body becomes in memory.
    pub(crate) measures_body: bool,
}

impl Needed {
    /// An unknown route needs the permission to read: only then a client learns that it does not exist.
    const NOTHING: Self = Self { wanted: RequiredAccess::Look, is_registered: false, measures_body: false };
}

/// Routes under construction.
pub(crate) struct Routes<S = ()> {
    /// All routes, in the order of their registration.
    list: Vec<Route>,
    /// Each path with the handlers of its methods.
    paths: Vec<(String, MethodRouter<S>)>,
}

/// The permissions that the methods of one path need.
#[derive(Debug, Clone)]
struct Needs(Vec<(Option<Method>, RequiredAccess, bool)>);

impl Needs {
    fn of(&self, method: &Method) -> Needed {
        // HEAD needs the permission of GET.
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        let find = |wanted: Option<&Method>| {
            let known = self.0.iter().find(|(known, ..)| known.as_ref() == wanted);
            known.map(|(_, wanted, measures_body)| (*wanted, *measures_body))
        };
        match (find(Some(method)), find(None)) {
            (Some((wanted, measures_body)), _) => Needed { wanted, is_registered: true, measures_body },
            (None, Some((wanted, measures_body))) => Needed { wanted, is_registered: false, measures_body },
            (None, None) => Needed::NOTHING,
        }
    }
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// Creates an empty list.
    pub(crate) fn new() -> Self {
        Self { list: Vec::new(), paths: Vec::new() }
    }

    /// Registers a handler for GET and HEAD.
    pub(crate) fn get<H: Handler<T, S>, T: 'static>(
        self,
        path: &str,
        wanted: RequiredAccess,
        handler: H,
        operation: impl Into<Option<Operation>>,
    ) -> Self {
        self.on(&Method::GET, path, wanted, handler, operation)
    }

    /// Registers a handler for POST.
    pub(crate) fn post<H: Handler<T, S>, T: 'static>(
        self,
        path: &str,
        wanted: RequiredAccess,
        handler: H,
        operation: impl Into<Option<Operation>>,
    ) -> Self {
        self.on(&Method::POST, path, wanted, handler, operation)
    }

    /// Registers a handler for PUT.
    pub(crate) fn put<H: Handler<T, S>, T: 'static>(
        self,
        path: &str,
        wanted: RequiredAccess,
        handler: H,
        operation: impl Into<Option<Operation>>,
    ) -> Self {
        self.on(&Method::PUT, path, wanted, handler, operation)
    }

    /// Registers a handler for PATCH.
    pub(crate) fn patch<H: Handler<T, S>, T: 'static>(
        self,
        path: &str,
        wanted: RequiredAccess,
        handler: H,
        operation: impl Into<Option<Operation>>,
    ) -> Self {
        self.on(&Method::PATCH, path, wanted, handler, operation)
    }

    /// Registers a handler for DELETE.
    pub(crate) fn delete<H: Handler<T, S>, T: 'static>(
        self,
        path: &str,
        wanted: RequiredAccess,
        handler: H,
        operation: impl Into<Option<Operation>>,
    ) -> Self {
        self.on(&Method::DELETE, path, wanted, handler, operation)
    }

    /// Registers a handler for one method. A method that the router does not know is not registered.
    pub(crate) fn on<H: Handler<T, S>, T: 'static>(
        self,
        method: &Method,
        path: &str,
        wanted: RequiredAccess,
        handler: H,
        operation: impl Into<Option<Operation>>,
    ) -> Self {
        let Ok(filter) = MethodFilter::try_from(method.clone()) else { return self };
        let (method, path) = (Some(method.clone()), path.to_owned());
        let route = Route { method, path, wanted, operation: operation.into() };
        self.add(route, routing::on(filter, handler))
    }

    /// Registers a handler for every method. The description has it under GET.
    pub(crate) fn any<H: Handler<T, S>, T: 'static>(
        self,
        path: &str,
        wanted: RequiredAccess,
        handler: H,
        operation: impl Into<Option<Operation>>,
    ) -> Self {
        let route = Route { method: None, path: path.to_owned(), wanted, operation: operation.into() };
        self.add(route, routing::any(handler))
    }

    fn add(mut self, route: Route, handlers: MethodRouter<S>) -> Self {
        self.handle(route.path.clone(), handlers);
        self.list.push(route);
        self
    }

    fn handle(&mut self, path: String, new: MethodRouter<S>) {
        match self.paths.iter_mut().find(|(known, _)| *known == path) {
            Some((_, handlers)) => *handlers = std::mem::take(handlers).merge(new),
            None => self.paths.push((path, new)),
        }
    }

    /// Adds other routes.
    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.list.extend(other.list);
        other.paths.into_iter().for_each(|(path, handlers)| self.handle(path, handlers));
        self
    }

    /// Handles methods that are not registered on a path. Layers that were added before do not see these requests.
    pub(crate) fn method_not_allowed<H: Handler<T, S>, T: 'static>(self, handler: &H) -> Self {
        self.mapped(|needs, handlers| {
            let takes_all = needs.0.iter().any(|(method, ..)| method.is_none());
            if takes_all { handlers } else { handlers.fallback(handler.clone()) }
        })
    }

    /// Puts a layer around every handler.
    pub(crate) fn layer<L>(self, layer: L) -> Self
    where
        L: Layer<routing::Route> + Clone + Send + Sync + 'static,
        L::Service: Service<Request> + Clone + Send + Sync + 'static,
        <L::Service as Service<Request>>::Response: IntoResponse + 'static,
        <L::Service as Service<Request>>::Error: Into<Infallible> + 'static,
        <L::Service as Service<Request>>::Future: Send + 'static,
    {
        self.mapped(|_, handlers| handlers.layer(layer.clone()))
    }

    /// Provides the state of the handlers.
    pub(crate) fn with_state(self, state: S) -> Routes {
        self.mapped(|_, handlers| handlers.with_state(state.clone()))
    }

    fn mapped<S2>(self, change: impl Fn(&Needs, MethodRouter<S>) -> MethodRouter<S2>) -> Routes<S2> {
        let Self { list, paths } = self;
        let mapped = paths.into_iter().map(|(path, handlers)| {
            let handlers = change(&needs(&list, &path), handlers);
            (path, handlers)
        });
        let paths = mapped.collect();
        Routes { list, paths }
    }

    /// Returns all registered routes, in the order of their registration.
    pub(crate) fn list(&self) -> &[Route] {
        &self.list
    }
}

impl Routes {
    /// Builds the router. Every layer that was added finds the needed permission in the request.
    pub(crate) fn into_router(self) -> Router {
        let Self { list, paths } = self;
        paths.into_iter().fold(Router::new(), |router, (path, handlers)| {
            let needs = needs(&list, &path);
            let tell = middleware::from_fn(move |request: Request, next: Next| {
                told(needs.of(request.method()), request, next)
            });
            router.route(&path, handlers.layer(tell))
        })
    }

    /// Creates a handler for paths that are not registered, behind the same layers.
    pub(crate) fn nowhere<H: Handler<T, ()>, T: 'static>(handler: H) -> Self {
        Self { list: Vec::new(), paths: vec![(String::new(), routing::any(handler))] }
    }

    /// Returns the service of [`Routes::nowhere`], for a router's fallback.
    pub(crate) fn into_fallback(self) -> MethodRouter {
        let tell = middleware::from_fn(|request: Request, next: Next| told(Needed::NOTHING, request, next));
        self.paths.into_iter().fold(MethodRouter::new(), |_, (_, handlers)| handlers.layer(tell.clone()))
    }
}

/// The permissions that the methods of one path need.
fn needs(list: &[Route], path: &str) -> Needs {
    let of_path = list.iter().filter(|route| route.path == path);
    let measures = |route: &Route| route.operation.as_ref().is_some_and(Operation::takes_a_file);
    Needs(of_path.map(|route| (route.method.clone(), route.wanted, measures(route))).collect())
}

async fn told(needed: Needed, mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(needed);
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use super::operation::{hidden, operation};
    use super::*;

    async fn nothing() {}

    #[test]
    fn what_a_request_needs_stands_beside_its_route() {
        let routes: Routes = Routes::new()
            .put("/x/{id}", RequiredAccess::Change, nothing, hidden())
            .merge(Routes::new().any("/y", RequiredAccess::Health, nothing, operation("Y", [])))
            .get("/x/{id}", RequiredAccess::Stream, nothing, operation("X", []));
        let of = |path: &str, method: Method| needs(routes.list(), path).of(&method);
        let needed = |wanted, is_registered| Needed { wanted, is_registered, measures_body: false };
        assert_eq!(of("/x/{id}", Method::PUT), needed(RequiredAccess::Change, true));
        assert_eq!(of("/x/{id}", Method::GET), needed(RequiredAccess::Stream, true));
        assert_eq!(of("/x/{id}", Method::HEAD), needed(RequiredAccess::Stream, true));
        assert_eq!(of("/x/{id}", Method::DELETE), Needed::NOTHING);
        assert_eq!(of("/y", Method::DELETE), needed(RequiredAccess::Health, false));
        let summary = |route: &Route| route.operation.as_ref().map(|operation| operation.summary.clone());
        let summaries: Vec<_> = routes.list().iter().map(summary).collect();
        assert_eq!(summaries, [None, Some("Y".to_owned()), Some("X".to_owned())]);
    }
}
