// Package environ decides which variables the agents on a site have: those that describe
// the account, its host and what a batch system has granted. What a shell, a module or a
// job script happened to set reaches neither an agent nor the programs that it starts, such
// as podman, QEMU or a node. The environment of a user's command is another matter: it
// comes from the image and the Beefile.
//
// The package knows nothing of sites or of what agents do.
package environ

import (
	"os"
	"os/user"
	"slices"
	"strings"
)

// Lookup finds a variable, as os.LookupEnv does.
type Lookup func(name string) (value string, set bool)

// defaultPath is that of programs where PATH is not set.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Enter gives this process the environment of an agent, and returns a lookup in the one
// that it had: a site's settings may name variables of the account.
func Enter() Lookup {
	former := os.Environ()
	os.Clearenv()
	for _, e := range Known(former) {
		name, value, _ := strings.Cut(e, "=")
		os.Setenv(name, value) //nolint:errcheck // a name from an environment is a valid one
	}
	return lookupIn(former)
}

func lookupIn(env []string) Lookup {
	return func(name string) (string, bool) {
		for _, e := range env {
			if n, value, found := strings.Cut(e, "="); found && n == name {
				return value, true
			}
		}
		return "", false
	}
}

// Known gives those variables of an environment, KEY=VALUE, that an agent has, and those
// that it always has.
func Known(env []string) []string {
	var known []string
	for _, e := range env {
		if name, _, found := strings.Cut(e, "="); found && keeps(name) {
			known = append(known, e)
		}
	}
	missing := func(name, value string) {
		if _, set := lookupIn(known)(name); !set && value != "" {
			known = append(known, name+"="+value)
		}
	}
	missing("PATH", defaultPath)
	if me, err := user.Current(); err == nil {
		missing("HOME", me.HomeDir)
		missing("USER", me.Username)
		missing("LOGNAME", me.Username)
	}
	return known
}

// keeps reports whether an agent has a variable.
func keeps(name string) bool {
	return slices.Contains(names(), name) ||
		slices.ContainsFunc([]string{"SLURM_", "SLURMD_"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) ||
		strings.HasSuffix(strings.ToLower(name), "_proxy")
}

// names are the variables that agents have, beside those of Slurm and of proxies.
func names() []string {
	return []string{
		// The account, and the places that it has for files.
		"HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "KRB5CCNAME",
		"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
		// The programs of the site, which modules may have to bring with their libraries.
		"PATH", "LD_LIBRARY_PATH",
		// The daemons and registries that docker, podman and apptainer use.
		"DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "DOCKER_API_VERSION",
		"CONTAINER_HOST", "CONTAINER_CONNECTION", "CONTAINER_SSHKEY", "CONTAINERS_CONF", "CONTAINERS_CONF_OVERRIDE",
		"CONTAINERS_REGISTRIES_CONF", "CONTAINERS_STORAGE_CONF", "REGISTRY_AUTH_FILE",
		"APPTAINER_CACHEDIR", "APPTAINER_CONFIGDIR", "APPTAINER_TMPDIR", "SINGULARITY_CACHEDIR", "SINGULARITY_CONFIGDIR", "SINGULARITY_TMPDIR",
		"SSL_CERT_FILE", "SSL_CERT_DIR",
		// The account's settings of bee itself.
		"BEE_CACHE", "BEE_SCRATCH",
	}
}

// OfRuntime names the variables by which Go's runtime is set before a program of ours has
// begun: who starts an agent leaves them out.
func OfRuntime() []string {
	return []string{"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK"}
}
