package control

import (
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
)

func TestASecretsCommandSaysWhyItFails(t *testing.T) {
	_, err := secrets(t.Context(), &spec.Job{Secrets: map[string]spec.Secret{"T": {Exec: "echo hidden; echo the store is locked >&2; exit 3"}}})
	if !core.IsKind(err, core.Invalid) || !strings.Contains(err.Error(), "exit status 3: the store is locked") || strings.Contains(err.Error(), "hidden") {
		t.Errorf("got %v", err)
	}
}
