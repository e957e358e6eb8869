package build

import (
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/shell"
	"github.com/bee-hpc/bee/internal/spec"
)

// Repository is an apt repository that has Docker's own packages.
type Repository struct {
	// URL is where it lies, Host the name in it.
	URL, Host string
	// Suite is as in Docker's own instructions: such as bookworm, or stable/ of a
	// repository without suites.
	Suite      string
	Components []string
	// Key is a file of this host with the key that it is signed by; empty: it is
	// trusted without.
	Key string
}

// ParseRepository reads a line of apt's sources.list:
//
//	deb [signed-by=FILE] URL SUITE COMPONENT...
//
// One that names no key is refused, unless it says trusted=yes.
func ParseRepository(line string) (*Repository, error) {
	refuse := func(why string) (*Repository, error) {
		return nil, &core.Error{
			Kind: core.Invalid, Op: "read apt repository", Object: line, Err: errors.New(why),
			Remedy: "Write it as in /etc/apt/sources.list: `deb [signed-by=KEY-FILE] URL SUITE COMPONENT`.",
		}
	}
	rest := strings.TrimSpace(line)
	if after, ok := strings.CutPrefix(rest, "deb "); ok {
		rest = strings.TrimSpace(after)
	}
	var r Repository
	trusted := false
	if after, ok := strings.CutPrefix(rest, "["); ok {
		options, after, closed := strings.Cut(after, "]")
		if !closed {
			return refuse("its options have no end")
		}
		for _, option := range strings.Fields(options) {
			switch key, value, _ := strings.Cut(option, "="); {
			case key == "signed-by" && path.IsAbs(value):
				r.Key = value
			case key == "signed-by":
				return refuse("signed-by wants the absolute path of a file with the key")
			case option == "trusted=yes":
				trusted = true
			case key == "arch": // the guest's
			default:
				return refuse("there is no use for its option " + option)
			}
		}
		rest = after
	}
	words := strings.Fields(rest)
	if len(words) < 2 {
		return refuse("it has no URL and suite")
	}
	u, err := url.Parse(words[0])
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return refuse(words[0] + " is no URL by http or https")
	}
	r.URL, r.Host, r.Suite, r.Components = words[0], u.Hostname(), words[1], words[2:]
	switch flat := strings.HasSuffix(r.Suite, "/"); {
	case flat && len(r.Components) > 0:
		return refuse("a suite that is a directory has no components")
	case !flat && len(r.Components) == 0:
		return refuse("it has no component, such as stable")
	case r.Key == "" && !trusted:
		return refuse("nothing says by which key it is signed: whoever is between here and there could give the guests another docker; `[trusted=yes]` in place of signed-by takes it as it is")
	}
	return &r, nil
}

// keyInGuest is where the key lies while the image is made.
const keyInGuest = "/bee-docker/key"

//go:embed repository.sh
var fromRepository string

// addTo has a build install Docker of the repository.
func (r *Repository) addTo(b *spec.Build) {
	if r.Key != "" {
		b.Copy = append(b.Copy, spec.Copy{From: r.Key, To: keyInGuest})
	}
	source := strings.Join(append([]string{r.URL, r.Suite}, r.Components...), " ")
	b.Run = append(b.Run, fmt.Sprintf("REPOSITORY=%s HOST=%s KEY=%s\n%s", shell.Quote(source), shell.Quote(r.Host), keyInGuest, strings.TrimSpace(fromRepository)))
}
