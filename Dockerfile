# The server and the command line with the page built in: one static binary, no shell, no root.
#   docker build -t qualitytrace .
FROM rust:1.95-alpine AS build
# A C compiler for SQLite and the cryptography, Node for the page.
# hadolint ignore=DL3018
RUN apk add --no-cache build-base nodejs npm
WORKDIR /src
# The image has this version already; rust-toolchain.toml would fetch rustfmt and clippy as well.
ENV RUSTUP_TOOLCHAIN=1.95.0 QUALITYTRACE_PAGE=require
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked --package qualitytrace \
    && install -D target/release/qualitytrace /out/usr/local/bin/qualitytrace \
    && install -d -m 0700 -o 65532 -g 65532 /out/var/lib/qualitytrace

# Certificates of authorities, time zones, and the user `nonroot` (65532); nothing else.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/ /
# Inside of a container, the ports have to be reachable from outside of it.
ENV QUALITYTRACE_HOST=0.0.0.0 QUALITYTRACE_DATA_DIR=/var/lib/qualitytrace
VOLUME ["/var/lib/qualitytrace"]
# The API, the page and OTLP; OTLP over gRPC; OTLP over HTTP.
EXPOSE 11633 4317 4318
USER 65532:65532
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s --retries=3 \
    CMD ["/usr/local/bin/qualitytrace", "ready", "--server", "http://127.0.0.1:11633"]
ENTRYPOINT ["/usr/local/bin/qualitytrace"]
CMD ["serve"]
