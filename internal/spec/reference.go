package spec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
)

// IsLocalImage reports an image that is named by a path of this machine.
func IsLocalImage(ref string) bool {
	scheme, _, is := strings.Cut(withScheme(ref), ":")
	return is && slices.Contains([]string{"oci", "docker-archive", "oci-archive", sifScheme}, scheme)
}

// IsEngineImage reports an image that docker or podman of this machine has.
func IsEngineImage(ref string) bool {
	scheme, _, is := strings.Cut(ref, ":")
	return is && (scheme == "docker-daemon" || scheme == "podman")
}

// sifScheme is that of image files of Apptainer.
const sifScheme = "sif"

// withScheme is a reference with the scheme that the ending of a path stands for: app.sif
// and sif:app.sif are one image.
func withScheme(ref string) string {
	if strings.HasSuffix(ref, ".sif") && !strings.Contains(ref, ":") {
		return sifScheme + ":" + ref
	}
	return ref
}

// ImageFrom gives an image's reference with its path, if it has one, as seen
// from a directory.
func ImageFrom(dir, ref string) string {
	ref = withScheme(strings.TrimPrefix(ref, registryPrefix))
	scheme, path, _ := strings.Cut(ref, ":")
	if IsLocalImage(ref) && !filepath.IsAbs(path) {
		return scheme + ":" + filepath.Join(dir, path)
	}
	return ref
}

// registryPrefix is how Apptainer, podman and skopeo write that a registry has an image.
const registryPrefix = "docker://"

// foreign are prefixes and endings of names by which other tools know images, with what
// to write instead.
var foreign = []struct{ prefix, suffix, what, instead string }{ // a table
	{"https://", "", "an address of the web", "leave out https://, such as registry.example.org/you/app:1.0"},
	{"http://", "", "an address of the web", "leave out http://, such as registry.example.org/you/app:1.0"},
	{"docker-image://", "", "a name of BuildKit's", "leave out docker-image://"},
	{"oci-layout://", "", "a name of BuildKit's", "write oci:DIR"},
	{"oci-image://", "", "a name of another tool", "leave out oci-image://"},
	{"docker-archive://", "", "no path of an archive", "write docker-archive:FILE, without //"},
	{"docker-daemon://", "", "a name of another tool", "write docker-daemon:NAME, without //"},
	{"library://", "", "an image of Apptainer's library", sif},
	{"shub://", "", "an image of Singularity Hub, which is closed", "name the image that it was made from; for a copy of it, write sif:FILE"},
	{"oras://", "", "a SIF file in a registry", sif},
	{"sif://", "", "no path of a SIF file", "write sif:FILE, without //"},
	{"instance://", "", "a running instance of Apptainer", "name its image"},
	{"", ".sqsh", "a SquashFS file of enroot", "name the image that it was made from"},
	{"dockerd://", "", "a name of enroot's", "write docker-daemon:NAME"},
	{"podman://", "", "a name of enroot's", "write podman:NAME"},
	{"containers-storage:", "", "an image of podman's storage", "write podman:NAME"},
	{"dir:", "", "a directory of skopeo's", "copy it: `skopeo copy dir:DIR oci:DIR2`, and write oci:DIR2"},
	{"docker-tar:", "", "a name of another tool", "write docker-archive:FILE"},
	{"tarball:", "", "an archive of a root file system", "`docker import FILE NAME`, then write docker-daemon:NAME"},
	{"ostree:", "", "an image of an OSTree repository", "copy it: `skopeo copy ostree:NAME oci:DIR`, and write oci:DIR"},
	{"file://", "", "an address of a file", "write docker-archive:FILE or oci:DIR"},
}

const sif = "pull it into a file: `apptainer pull app.sif IMAGE`, and write sif:app.sif; or name the image that it was made from"

// foreignImage finds names of other tools.
func foreignImage(ref string) (hint string, err error) {
	for _, f := range foreign {
		if strings.HasPrefix(ref, f.prefix) && strings.HasSuffix(ref, f.suffix) && (f.suffix == "" || !strings.Contains(ref, ":")) {
			return f.instead, fmt.Errorf("%q is %s", ref, f.what)
		}
	}
	return "", nil
}

// CheckForeign refuses names by which only other tools know an image, by an error of kind
// Invalid that names what to write instead.
func CheckForeign(ref string) error {
	hint, err := foreignImage(ref)
	if err == nil {
		return nil
	}
	return &core.Error{Kind: core.Invalid, Op: "find image", Err: err, Remedy: strings.ToUpper(hint[:1]) + hint[1:] + "."}
}

// SplitPath distinguishes the path of an image from the tag behind it; both may have
// colons. Where there is no such path, all of it is one.
func SplitPath(rest string) (path, tag string) {
	for at := 1; at <= len(rest); at++ {
		if at < len(rest) && rest[at] != ':' {
			continue
		}
		if _, err := os.Stat(rest[:at]); err == nil {
			return rest[:at], strings.TrimPrefix(rest[at:], ":")
		}
	}
	return rest, ""
}

// checkReference finds what names no image: neither one of this machine, nor one of
// a registry by docker's grammar (github.com/distribution/reference). The hint shows
// what would.
func checkReference(ref string) (hint string, err error) {
	ref = strings.TrimPrefix(ref, registryPrefix)
	scheme, rest, _ := strings.Cut(ref, ":")
	switch {
	case scheme == "sha256":
		if !matches(`^[0-9a-f]{4,64}$`, rest) {
			return "`bee image ls` shows them", fmt.Errorf("%q is no id of an image", ref)
		}
		return "", nil
	case IsLocalImage(ref):
		if rest == "" {
			return "such as " + ref + "./app", errors.New("a path is wanted after the colon")
		}
		return "", nil
	case scheme == "docker-daemon" || scheme == "podman":
		return "such as " + scheme + ":app:1.0", checkRegistryName(rest)
	}
	return "such as docker.io/library/debian:12", checkRegistryName(ref)
}

// CheckName reports what is wrong with a name that a flag gives to an image of the cache,
// by an error of kind Invalid: it has to be one as of a registry, which means no
// certain content.
func CheckName(flag, name string) error {
	const hint = "such as my-app:1.0 or registry.example.org/you/app:1.0"
	r := newReport(flag, nil)
	r.flags["name"] = flag
	scheme, _, _ := strings.Cut(name, ":")
	switch err := checkRegistryName(name); {
	case err != nil:
		r.at("name", hint, "%v", err)
	case strings.Contains(name, "@"):
		r.at("name", hint, "%q names its content, which no other can have", name)
	case IsLocalImage(name) || slices.Contains([]string{"sha256", "docker-daemon", "podman"}, scheme):
		r.at("name", hint, "%q has another meaning in a Beefile", name)
	}
	return asError(r.problems)
}

func checkRegistryName(ref string) error {
	const longestName, longestTag = 255, 128
	name, digest, pinned := strings.Cut(ref, "@")
	if pinned && !matches(`^(sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128})$`, digest) {
		return fmt.Errorf("%q is no digest", digest)
	}
	// As docker distinguishes them: what has neither dot nor colon is no host.
	if host, path, is := strings.Cut(name, "/"); is && (host == "localhost" || strings.ContainsAny(host, ".:")) {
		const label = `[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?`
		if !matches(`^(`+label+`(\.`+label+`)*|\[[0-9A-Fa-f:]+\])(:[0-9]+)?$`, host) {
			return fmt.Errorf("%q is no name of a registry", host)
		}
		name = path
	}
	repository, tag, tagged := strings.Cut(name, ":")
	if tagged && (len(tag) > longestTag || !matches(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`, tag)) {
		return fmt.Errorf("%q is no tag of an image", tag)
	}
	const part = `[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*`
	if len(repository) > longestName || !matches(`^`+part+`(/`+part+`)*$`, repository) {
		return fmt.Errorf("%q is no name of an image", ref)
	}
	return nil
}

func matches(pattern, text string) bool { return regexp.MustCompile(pattern).MatchString(text) }
