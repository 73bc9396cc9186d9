//! Registration of routes, each with the permission that it needs, so that none can be served without one.
//!
//! `Routes` is the only way from a handler to a socket. It tells every layer around a handler what the request needs
//! (`Needed`); it does not decide which client has that permission.

use std::convert::Infallible;

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{self, MethodFilter, MethodRouter};
use http::Method;
use tower::{Layer, Service};

use crate::access::Wanted;

/// A route, and the permission that it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The method; `None` for all.
    pub method: Option<Method>,
    /// The path, with `{name}` for each parameter.
    pub path: String,
    /// The permission that it needs.
    pub wanted: Wanted,
}

/// The permission that a request needs, in its extensions for every layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Needed {
    pub(crate) wanted: Wanted,
    /// Whether a handler is registered for its method. If not, the response is 404 or 405, whatever the request
    /// contains.
    pub(crate) is_registered: bool,
}

impl Needed {
    /// An unknown route needs the permission to read: only then a client learns that it does not exist.
    const NOTHING: Self = Self { wanted: Wanted::Look, is_registered: false };
}

/// Routes under construction.
pub(crate) struct Routes<S = ()> {
    paths: Vec<PathRoutes<S>>,
}

struct PathRoutes<S> {
    path: String,
    needs: Needs,
    handlers: MethodRouter<S>,
}

/// The permissions that the methods of one path need.
#[derive(Debug, Clone, Default)]
struct Needs(Vec<(Option<Method>, Wanted)>);

impl Needs {
    fn of(&self, method: &Method) -> Needed {
        // HEAD needs the permission of GET.
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        let find = |wanted: Option<&Method>| {
            self.0.iter().find(|(known, _)| known.as_ref() == wanted).map(|(_, wanted)| *wanted)
        };
        match (find(Some(method)), find(None)) {
            (Some(wanted), _) => Needed { wanted, is_registered: true },
            (None, Some(wanted)) => Needed { wanted, is_registered: false },
            (None, None) => Needed::NOTHING,
        }
    }
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// Creates an empty list.
    pub(crate) fn new() -> Self {
        Self { paths: Vec::new() }
    }

    /// Registers a handler for GET and HEAD.
    pub(crate) fn get<H: Handler<T, S>, T: 'static>(self, path: &str, wanted: Wanted, handler: H) -> Self {
        self.on(&Method::GET, path, wanted, handler)
    }

    /// Registers a handler for POST.
    pub(crate) fn post<H: Handler<T, S>, T: 'static>(self, path: &str, wanted: Wanted, handler: H) -> Self {
        self.on(&Method::POST, path, wanted, handler)
    }

    /// Registers a handler for PUT.
    pub(crate) fn put<H: Handler<T, S>, T: 'static>(self, path: &str, wanted: Wanted, handler: H) -> Self {
        self.on(&Method::PUT, path, wanted, handler)
    }

    /// Registers a handler for PATCH.
    pub(crate) fn patch<H: Handler<T, S>, T: 'static>(self, path: &str, wanted: Wanted, handler: H) -> Self {
        self.on(&Method::PATCH, path, wanted, handler)
    }

    /// Registers a handler for DELETE.
    pub(crate) fn delete<H: Handler<T, S>, T: 'static>(self, path: &str, wanted: Wanted, handler: H) -> Self {
        self.on(&Method::DELETE, path, wanted, handler)
    }

    /// Registers a handler for one method. A method that the router does not know is not registered.
    pub(crate) fn on<H: Handler<T, S>, T: 'static>(
        self,
        method: &Method,
        path: &str,
        wanted: Wanted,
        handler: H,
    ) -> Self {
        match MethodFilter::try_from(method.clone()) {
            Ok(filter) => self.add(PathRoutes {
                path: path.to_owned(),
                needs: Needs(vec![(Some(method.clone()), wanted)]),
                handlers: routing::on(filter, handler),
            }),
            Err(_) => self,
        }
    }

    /// Registers a handler for every method.
    pub(crate) fn any<H: Handler<T, S>, T: 'static>(self, path: &str, wanted: Wanted, handler: H) -> Self {
        let (path, needs) = (path.to_owned(), Needs(vec![(None, wanted)]));
        self.add(PathRoutes { path, needs, handlers: routing::any(handler) })
    }

    fn add(mut self, new: PathRoutes<S>) -> Self {
        match self.paths.iter_mut().find(|known| known.path == new.path) {
            Some(known) => {
                known.needs.0.extend(new.needs.0);
                known.handlers = std::mem::take(&mut known.handlers).merge(new.handlers);
            }
            None => self.paths.push(new),
        }
        self
    }

    /// Adds other routes.
    pub(crate) fn merge(self, other: Self) -> Self {
        other.paths.into_iter().fold(self, Self::add)
    }

    /// Handles methods that are not registered on a path. Layers that were added before do not see these requests.
    pub(crate) fn method_not_allowed<H: Handler<T, S>, T: 'static>(self, handler: &H) -> Self {
        self.mapped(|path| {
            let takes_all = path.needs.0.iter().any(|(method, _)| method.is_none());
            if takes_all { path.handlers } else { path.handlers.fallback(handler.clone()) }
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
        self.mapped(|path| path.handlers.layer(layer.clone()))
    }

    /// Provides the state of the handlers.
    pub(crate) fn with_state(self, state: S) -> Routes {
        self.mapped(|path| path.handlers.with_state(state.clone()))
    }

    fn mapped<S2>(self, change: impl Fn(PathRoutes<S>) -> MethodRouter<S2>) -> Routes<S2> {
        let mapped = self.paths.into_iter().map(|path| {
            let (name, needs) = (path.path.clone(), path.needs.clone());
            PathRoutes { path: name, needs, handlers: change(path) }
        });
        Routes { paths: mapped.collect() }
    }

    /// Returns all registered routes with their permissions.
    pub(crate) fn list(&self) -> Vec<Route> {
        let of = |path: &PathRoutes<S>| {
            let route = |(method, wanted): &(Option<Method>, Wanted)| Route {
                method: method.clone(),
                path: path.path.clone(),
                wanted: *wanted,
            };
            path.needs.0.iter().map(route).collect::<Vec<_>>()
        };
        self.paths.iter().flat_map(of).collect()
    }
}

impl Routes {
    /// Builds the router. Every layer that was added finds the needed permission in the request.
    pub(crate) fn into_router(self) -> Router {
        self.paths.into_iter().fold(Router::new(), |router, path| {
            let needs = path.needs;
            let tell = middleware::from_fn(move |request: Request, next: Next| {
                told(needs.of(request.method()), request, next)
            });
            router.route(&path.path, path.handlers.layer(tell))
        })
    }

    /// Creates a handler for paths that are not registered, behind the same layers.
    pub(crate) fn nowhere<H: Handler<T, ()>, T: 'static>(handler: H) -> Self {
        Self::new().add(PathRoutes {
            path: String::new(),
            needs: Needs(vec![(None, Wanted::Look)]),
            handlers: routing::any(handler),
        })
    }

    /// Returns the service of [`Routes::nowhere`], for a router's fallback.
    pub(crate) fn into_fallback(self) -> MethodRouter {
        let tell = middleware::from_fn(|request: Request, next: Next| told(Needed::NOTHING, request, next));
        self.paths.into_iter().fold(MethodRouter::new(), |_, path| path.handlers.layer(tell.clone()))
    }
}

async fn told(needed: Needed, mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(needed);
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn nothing() {}

    #[test]
    fn what_a_request_needs_stands_beside_its_route() {
        let routes: Routes = Routes::new()
            .put("/x/{id}", Wanted::Change, nothing)
            .get("/x/{id}", Wanted::Stream, nothing)
            .merge(Routes::new().any("/y", Wanted::Health, nothing));
        let of = |path: usize, method: Method| routes.paths[path].needs.of(&method);
        let needed = |wanted, is_registered| Needed { wanted, is_registered };
        assert_eq!(of(0, Method::PUT), needed(Wanted::Change, true));
        assert_eq!(of(0, Method::GET), needed(Wanted::Stream, true));
        assert_eq!(of(0, Method::HEAD), needed(Wanted::Stream, true));
        assert_eq!(of(0, Method::DELETE), Needed::NOTHING);
        assert_eq!(of(1, Method::DELETE), needed(Wanted::Health, false));
        assert_eq!(routes.list().len(), 3);
    }
}
