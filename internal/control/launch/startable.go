package launch

import (
	"fmt"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
)

// startable refuses variables of the image and values of secrets with which Linux starts no
// program. The Beefile's own are checked with it.
func startable(job *spec.Job, image core.Image, secrets map[string]string) error {
	for _, v := range image.Config.Env {
		name, _, _ := strings.Cut(v, "=")
		_, replaced := job.Env[name]
		if _, secret := secrets[name]; len(v) > core.LongestArgument && !replaced && !secret {
			return tooLong("use the image's variable", name, len(v), "Give it a shorter value by `env:` in the Beefile.")
		}
	}
	for name, value := range secrets {
		if n := len(name) + 1 + len(value); n > core.LongestArgument {
			return tooLong("use the secret", name, n, "Give the job the name of a file in its place.")
		}
	}
	return nil
}

func tooLong(op, name string, bytes int, remedy string) error {
	return &core.Error{Kind: core.Invalid, Op: op, Object: name, Err: fmt.Errorf("it has %d bytes, Linux starts programs with %d at most", bytes, core.LongestArgument), Remedy: remedy}
}
