// Stock: reserves goods. It looks at the shelf once for a whole order.
package main

import (
	"context"
	"encoding/json"
	"log"
	"net/http"
	"os"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
)

var (
	bug    = os.Getenv("BUG")
	tracer = otel.Tracer("stock")
)

func main() {
	exporter, err := otlptracehttp.New(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	// The SDK's defaults: a batch is sent every five seconds.
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithBatcher(exporter)))
	otel.SetTextMapPropagator(propagation.TraceContext{})

	routes := http.NewServeMux()
	routes.HandleFunc("GET /healthz", func(answer http.ResponseWriter, _ *http.Request) { answer.Write([]byte("ok")) })
	routes.HandleFunc("POST /reservations", reserve)
	port := os.Getenv("PORT")
	if port == "" {
		port = "7003"
	}
	log.Fatal(http.ListenAndServe("127.0.0.1:"+port, otelhttp.NewHandler(routes, "stock")))
}

func reserve(answer http.ResponseWriter, request *http.Request) {
	var order struct{ Items []string }
	if err := json.NewDecoder(request.Body).Decode(&order); err != nil {
		http.Error(answer, err.Error(), http.StatusBadRequest)
		return
	}
	looks := [][]string{order.Items}
	if bug == "n-plus-one" {
		looks = nil
		for _, item := range order.Items {
			looks = append(looks, []string{item})
		}
	}
	for _, items := range looks {
		if !readShelf(request.Context(), items) {
			http.Error(answer, "sold out", http.StatusConflict)
			return
		}
	}
	answer.WriteHeader(http.StatusCreated)
}

// readShelf tells whether all of these are in stock. The shop has run out of unicorns.
func readShelf(ctx context.Context, items []string) bool {
	_, span := tracer.Start(ctx, "read shelf")
	defer span.End()
	span.SetAttributes(attribute.StringSlice("stock.items", items))
	for _, item := range items {
		if item == "unicorn" {
			return false
		}
	}
	return true
}
