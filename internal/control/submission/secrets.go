package submission

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
)

// Secrets reads the values of a job's secrets. They are read again by every
// controller, so that they never touch a disk.
func Secrets(ctx context.Context, job *spec.Job) (map[string]string, error) {
	values := make(map[string]string, len(job.Secrets))
	for name, from := range job.Secrets {
		value, err := ReadSecret(ctx, from)
		if err != nil {
			return nil, &core.Error{
				Kind: core.Invalid, Op: "read secret", Object: name, Err: err,
				Remedy: "Check the `secrets:` entry of the Beefile.",
			}
		}
		values[name] = value
	}
	return values, nil
}

// ReadSecret reads the value of a secret from its source.
func ReadSecret(ctx context.Context, from spec.Secret) (string, error) {
	switch {
	case from.Env != "":
		value, ok := os.LookupEnv(from.Env)
		if !ok {
			return "", fmt.Errorf("variable %s is not set", from.Env)
		}
		return value, nil
	case from.File != "":
		raw, err := os.ReadFile(from.File)
		return strings.TrimSuffix(string(raw), "\n"), err
	default:
		raw, err := exec.CommandContext(ctx, "/bin/sh", "-c", from.Exec).Output()
		if ended, is := errors.AsType[*exec.ExitError](err); is && len(ended.Stderr) > 0 {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(ended.Stderr)))
		}
		return strings.TrimSuffix(string(raw), "\n"), err
	}
}
