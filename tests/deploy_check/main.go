// Reads files of deploy/ with the libraries of the tools that would: compose-go (docker compose) and BuildKit's
// parser (docker build). Prints what was read as JSON and exits with 0, or says what is wrong with it and exits
// with 1.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

var readers = map[string]func(name string) (any, error){
	"compose":       compose,
	"containerfile": containerfile,
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) != 2 || readers[arguments[0]] == nil {
		return errors.New("usage: deploy_check compose|containerfile FILE")
	}
	found, err := readers[arguments[0]](arguments[1])
	if err != nil {
		return fmt.Errorf("%s: %w", arguments[1], err)
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", " ")
	return encoder.Encode(found)
}

// compose is `docker compose config`: the schema, interpolation, and that what is named is there.
func compose(name string) (any, error) {
	options, err := cli.NewProjectOptions(
		[]string{name}, cli.WithWorkingDirectory(filepath.Dir(name)), cli.WithName("flowdiff"),
		cli.WithConsistency(true), cli.WithInterpolation(true), cli.WithProfiles([]string{"*"}),
	)
	if err != nil {
		return nil, err
	}
	return options.LoadProject(context.Background())
}

// containerfile is the first half of `docker build`: stages and instructions, with BuildKit's warnings as errors.
func containerfile(name string) (any, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	var warnings []string
	for _, warning := range parsed.Warnings {
		warnings = append(warnings, warning.Short)
	}
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, message string, _ []parser.Range) {
		warnings = append(warnings, rule+": "+message)
	}})
	stages, arguments, err := instructions.Parse(parsed.AST, lint)
	if err != nil {
		return nil, err
	}
	if len(warnings) > 0 {
		return nil, fmt.Errorf("%v", warnings)
	}
	type stage struct {
		Name, Base   string
		Instructions []string
	}
	found := struct {
		Arguments int
		Stages    []stage
	}{Arguments: len(arguments)}
	for _, each := range stages {
		read := stage{Name: each.Name, Base: each.BaseName}
		for _, command := range each.Commands {
			read.Instructions = append(read.Instructions, fmt.Sprint(command))
		}
		found.Stages = append(found.Stages, read)
	}
	return found, nil
}
