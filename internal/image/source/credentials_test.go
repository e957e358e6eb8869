package source

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

// TestCredentialsThatCannotBeRead leave the request anonymous, and say why.
func TestCredentialsThatCannotBeRead(t *testing.T) {
	home := t.TempDir()
	bin := filepath.Join(home, "bin")
	for _, d := range []string{bin, filepath.Join(home, ".docker")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for helper, script := range map[string]string{
		"fail": "echo no such thing >&2; exit 1", "none": "echo credentials not found in native keychain; exit 1", "junk": "echo hello",
		"hang": "sleep 1000 & wait", "deaf": "trap '' TERM; while :; do sleep 1000; done", "flood": "exec yes",
		"ring": `key=$(cat); [ "$key" = reg.example.org:5000 ] && echo '{"Username":"ann","Secret":"s"}'`, "token": `echo '{"Username":"<token>","Secret":"t"}'`,
	} {
		if err := core.WriteProgram(filepath.Join(bin, "docker-credential-"+helper), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("HOME", home)
	for _, v := range []string{"DOCKER_CONFIG", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "REGISTRY_AUTH_FILE"} {
		t.Setenv(v, "")
	}
	repo, err := name.NewRepository("reg.example.org:5000/app")
	if err != nil {
		t.Fatal(err)
	}
	ann := `"auths":{"reg.example.org:5000":{"auth":"YW5uOnM="}}`
	for what, c := range map[string]struct{ config, user, says string }{
		"nothing":                      {"", "", ""},
		"a store that is missing":      {`{"credsStore":"desktop"}`, "", "docker-credential-desktop failed"},
		"a helper that is missing":     {`{"credHelpers":{"reg.example.org:5000":"ecr-login"}}`, "", "ecr-login failed"},
		"a helper of another registry": {`{"credHelpers":{"gcr.io":"gcloud"}}`, "", ""},
		"a store that fails":           {`{"credsStore":"fail"}`, "", "failed"},
		"a store that has none":        {`{"credsStore":"none"}`, "", ""},
		"a store that prints nonsense": {`{"credsStore":"junk"}`, "", "docker-credential-junk"},
		"a store that hangs":           {`{"credsStore":"hang"}`, "", "not answered"},
		"a store that heeds no signal": {`{"credsStore":"deaf"}`, "", "not answered"},
		"a store that never stops":     {`{"credsStore":"flood"}`, "", "failed"},
		"a store that has them":        {`{"credHelpers":{"reg.example.org:5000":"ring"},"credsStore":"fail"}`, "", "fail"},
		"a helper that has them":       {`{"credHelpers":{"reg.example.org:5000/app":"none","reg.example.org:5000":"ring"}}`, "ann", ""},
		"a token":                      {`{"credsStore":"token"}`, "<token>", ""},
		"beside a store that fails":    {`{"credsStore":"fail",` + ann + `}`, "ann", "failed"},
		"in the file":                  {`{` + ann + `}`, "ann", ""},
		"null":                         {`{"auths":null}`, "", ""},
		"an empty entry":               {`{"auths":{"reg.example.org:5000":{}}}`, "", ""},
		"broken JSON":                  {`{"auths": {`, "", "config.json"},
		"an empty file":                {" ", "", ""},
		"an entry of another kind":     {`{"auths":{"reg.example.org:5000":7}}`, "", "config.json"},
	} {
		t.Run(what, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(home, ".docker/config.json"), []byte(c.config), 0o600); err != nil {
				t.Fatal(err)
			}
			timeout := 20 * time.Second
			if strings.Contains(c.says, "answered") {
				timeout = 300 * time.Millisecond
			}
			auth, problem := credentials(t.Context(), repo, timeout)
			if c.says == "" && problem != nil || c.says != "" && (problem == nil || !strings.Contains(problem.Error(), c.says)) {
				t.Errorf("problem: %v", problem)
			}
			got, err := authn.Authorization(t.Context(), auth)
			if err != nil {
				t.Fatal(err)
			}
			user := got.Username
			if got.IdentityToken != "" {
				user = "<token>"
			}
			if user != c.user {
				t.Errorf("they are %q's, not %q's", user, c.user)
			}
		})
	}
}
