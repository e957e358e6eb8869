package spec

import (
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"time"
)

// LeastMargin is what the end of any attempt takes of its slot: the job's
// processes are ended and its hosts released.
const LeastMargin = 10 * time.Second

// architectures that images are made for, as Go and Docker call them.
func architectures() []string {
	known := []string{"amd64", "arm64", "386", "arm", "loong64", "mips64le", "ppc64le", "riscv64", "s390x"}
	if !slices.Contains(known, runtime.GOARCH) {
		known = append(known, runtime.GOARCH)
	}
	return known
}

// checkPlatform finds platforms that no container can be of.
func (r *report) checkPlatform(text string) {
	if _, given := r.places["platform"]; text == "" && !given {
		return
	}
	system, arch, _ := strings.Cut(text, "/")
	arch, variant, more := strings.Cut(arch, "/")
	switch {
	case system != "linux" || more && (variant == "" || strings.Contains(variant, "/")):
		r.at("platform", "such as linux/arm64", "platform: %q is no platform of containers: they are linux/ and an architecture", text)
	case !slices.Contains(architectures(), arch):
		hint := "such as linux/amd64 or linux/arm64"
		if near := nearest(arch, architectures()); near != "" {
			hint = "did you mean \"linux/" + near + "\"?"
		}
		r.at("platform", hint, "platform: %q is no architecture of images", arch)
	}
}

// CheckPlatform reports what is wrong with a platform that a flag gives, by an error of
// kind Invalid.
func CheckPlatform(flag, text string) error {
	r := newReport(flag, nil)
	r.flags["platform"] = flag
	r.checkPlatform(text)
	return asError(r.problems)
}

// checkNetwork finds what is neither a CIDR nor the name of an interface.
func (r *report) checkNetwork(at, text string) {
	const longest = 15 // bytes in the name of an interface of Linux
	const hint = "an interface such as eth0, or a range of addresses such as 10.1.0.0/16"
	if text == "" {
		return
	}
	if strings.Contains(text, "/") {
		if _, err := netip.ParsePrefix(text); err != nil {
			r.at(at, hint, "%s: %q is no range of addresses", at, text)
		}
		return
	}
	if _, err := netip.ParseAddr(text); err == nil {
		r.at(at, hint, "%s: %q is a single address; other hosts have others", at, text)
	} else if len(text) > longest || strings.ContainsAny(text, " \t\n,:") {
		r.at(at, hint, "%s: %q is no name of an interface", at, text)
	}
}

// positive refuses a duration of nothing where one is given: it would count as
// if it were not.
func (r *report) positive(at string, v time.Duration, otherwise string) {
	if _, given := r.places[at]; given && v == 0 {
		r.at(at, "leave it out for "+otherwise, "%s: it cannot be nothing", at)
	}
}
