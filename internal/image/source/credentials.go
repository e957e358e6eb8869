package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

// helperTime is how long credential helpers may take: a person may have to unlock what
// they read.
const helperTime = 20 * time.Second

// loginFile is what is read here of docker's config.json, and of podman's auth.json.
type loginFile struct {
	Auths       map[string]authn.AuthConfig `json:"auths"`
	CredsStore  string                      `json:"credsStore"`
	CredHelpers map[string]string           `json:"credHelpers"`
}

// credentials returns the user's credentials for a repository. Most images need none: where
// they cannot be read, the request is anonymous, and problem says why. Helpers get as long
// as a limit of time, together.
func credentials(ctx context.Context, repo name.Repository, timeout time.Duration) (auth authn.Authenticator, problem error) {
	path := loginPath()
	if path == "" {
		return authn.Anonymous, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return authn.Anonymous, fmt.Errorf("read credentials: %w", err)
	}
	var f loginFile
	if len(bytes.TrimSpace(raw)) > 0 {
		if err := json.Unmarshal(raw, &f); err != nil {
			return authn.Anonymous, fmt.Errorf("read credentials in %s: %w", path, err)
		}
	}
	helped := false
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, key := range loginKeys(repo) {
		helper := f.CredsStore
		if own, ok := f.CredHelpers[key]; ok {
			helper = own
		}
		if helper == "" {
			continue
		}
		helped = true
		found, err := askHelper(bounded, helper, key)
		if err != nil {
			problem = err
			break
		}
		if found != nil {
			return authn.FromConfig(*found), nil
		}
	}
	if !helped {
		auth, err := authn.Resolve(ctx, authn.DefaultKeychain, repo)
		if err != nil {
			return authn.Anonymous, fmt.Errorf("read credentials in %s: %w", path, err)
		}
		return auth, nil
	}
	for _, key := range loginKeys(repo) { // what was written beside the helper
		if found, ok := f.Auths[key]; ok && found != (authn.AuthConfig{}) {
			return authn.FromConfig(found), problem
		}
	}
	return authn.Anonymous, problem
}

// loginKeys are the names of a repository's credentials, best first.
func loginKeys(repo name.Repository) []string {
	registry := repo.RegistryStr()
	if registry == name.DefaultRegistry {
		registry = authn.DefaultAuthKey
	}
	return []string{repo.String(), registry}
}

// loginPath is the file of the user's credentials, by the rules of authn.DefaultKeychain;
// "": there is none.
func loginPath() string {
	home, _ := os.UserHomeDir()
	in := func(dir, file string) string {
		if dir == "" {
			return ""
		}
		return filepath.Join(dir, file)
	}
	config := os.Getenv("XDG_CONFIG_HOME")
	if config == "" {
		config = in(home, ".config")
	}
	docker := os.Getenv("DOCKER_CONFIG")
	if docker == "" {
		docker = in(home, ".docker")
	}
	for _, path := range []string{
		in(docker, "config.json"), os.Getenv("REGISTRY_AUTH_FILE"),
		in(runtimeDir(), "containers/auth.json"), in(config, "containers/auth.json"),
	} {
		if path == "" {
			continue
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() || errors.Is(err, fs.ErrPermission) {
			return path
		}
	}
	return ""
}

// runtimeDir is the user's directory for what lives as long as a login; "": there is none,
// or, as after su, it is another user's.
func runtimeDir() string {
	dir := os.Getenv("XDG_RUNTIME_DIR")
	own, err := fsutil.OpenOwn(dir)
	if err != nil {
		return ""
	}
	own.Close()
	return dir
}

// askHelper runs docker-credential-HELPER, whose protocol is that of
// github.com/docker/docker-credential-helpers. It returns nil where the helper has no
// such credentials.
func askHelper(ctx context.Context, helper, key string) (*authn.AuthConfig, error) {
	program := "docker-credential-" + helper
	c := exec.CommandContext(ctx, program, "get")
	c.Stdin = strings.NewReader(key)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) } // what it has started, too
	c.WaitDelay = time.Second
	var printed answer
	c.Stdout = &printed
	err := c.Run()
	out := printed.text
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("%s has not answered in time", program)
	case err != nil && strings.Contains(string(out), "credentials not found"):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s failed: %w", program, err)
	}
	var found struct{ Username, Secret string }
	if err := json.Unmarshal(out, &found); err != nil {
		return nil, fmt.Errorf("%s gave no credentials, but %.40q", program, out)
	}
	if found.Username == "<token>" {
		return &authn.AuthConfig{IdentityToken: found.Secret}, nil
	}
	return &authn.AuthConfig{Username: found.Username, Password: found.Secret}, nil
}

// answer is what a helper prints, within bounds.
type answer struct{ text []byte }

// Write implements io.Writer.
func (a *answer) Write(b []byte) (int, error) {
	if len(a.text)+len(b) > maxAnswer {
		return 0, errors.New("its answer is too long")
	}
	a.text = append(a.text, b...)
	return len(b), nil
}

const maxAnswer = 1 << 20 // bytes
