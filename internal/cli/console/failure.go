package console

import (
	"errors"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
)

// Failure is an error in JSON: what --json-errors writes, and --json in place of a run's
// record where there is none.
type Failure struct {
	Error *ErrorView `json:"error"`
	// Problems are those of the Beefile, the sites file and flags.
	Problems []spec.Problem `json:"problems,omitempty"`
}

// FailureOf returns an error as JSON has it.
func FailureOf(err error) Failure {
	f := Failure{Error: ErrorOf(core.KindOf(err).String(), err.Error(), core.Remedy(err))}
	if all, is := errors.AsType[*spec.Errors](err); is {
		f.Problems = all.Problems
	}
	return f
}

// ErrorView is an error as JSON has it.
type ErrorView struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// ErrorOf returns an error of a record as JSON has it; nil where there is none.
func ErrorOf(kind, message, remedy string) *ErrorView {
	if message == "" {
		return nil
	}
	return &ErrorView{kind, message, remedy}
}
