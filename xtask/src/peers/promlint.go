// Reads metrics as Prometheus does, by the media type that is its argument, and says what `promtool check metrics` says.
//
// With the argument `rules` it reads a file of rules as `promtool check rules` does, and with `expressions` an expression
// on each line; both print the metrics and labels that are used, a metric and its labels on each line.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql/parser"
)

func main() {
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		fail(err)
	}
	switch os.Args[1] {
	case "rules":
		rules(input)
		return
	case "expressions":
		for _, line := range strings.Split(strings.TrimSpace(string(input)), "\n") {
			expression(line)
		}
		return
	}
	exposition, err := textparse.New(input, os.Args[1], labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		fail(err)
	}
	for err == nil {
		_, err = exposition.Next()
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

func rules(input []byte) {
	language := parser.NewParser(parser.Options{})
	groups, problems := rulefmt.Parse(input, false, model.UTF8Validation, language, slog.Default())
	if len(problems) > 0 {
		fail(errors.Join(problems...))
	}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			expression(rule.Expr)
		}
	}
}

func expression(text string) {
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		fail(fmt.Errorf("%s: %w", text, err))
	}
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			fmt.Print(selector.Name)
			for _, matcher := range selector.LabelMatchers {
				if matcher.Name != labels.MetricName {
					fmt.Print(" ", matcher.Name)
				}
			}
			fmt.Println()
		}
		return nil
	})
}

func fail(err error) {
	fmt.Println(err)
	os.Exit(1)
}
