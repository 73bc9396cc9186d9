// Reads metrics as Prometheus does, by the media type that is its argument, and says what `promtool check metrics` says.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

func main() {
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		fail(err)
	}
	parser, err := textparse.New(input, os.Args[1], labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		fail(err)
	}
	for err == nil {
		_, err = parser.Next()
	}
	if !errors.Is(err, io.EOF) {
		fail(err)
	}
	// The linter reads the older format only.
	if !strings.HasPrefix(os.Args[1], "text/plain") {
		return
	}
	problems, err := promlint.New(bytes.NewReader(input)).Lint()
	if err != nil {
		fail(err)
	}
	for _, problem := range problems {
		fmt.Println(problem.Metric, problem.Text)
	}
	if len(problems) > 0 {
		os.Exit(3)
	}
}

func fail(err error) {
	fmt.Println(err)
	os.Exit(1)
}
