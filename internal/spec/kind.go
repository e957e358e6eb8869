package spec

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Kind is what the contents of a file are.
type Kind string

// The kinds of files that are mistaken for Beefiles. The parser reports what is wrong with
// all others.
const (
	KindBeefile    Kind = "Beefile"
	KindSites      Kind = "sites file"
	KindCompose    Kind = "compose file"
	KindKubernetes Kind = "manifest of Kubernetes"
	KindSkyPilot   Kind = "SkyPilot task"
	KindBatch      Kind = "batch script"
	KindScript     Kind = "script"
	KindDockerfile Kind = "Dockerfile"
	KindDefinition Kind = "definition file of Apptainer"
	KindArchive    Kind = "tar archive"
)

// KindOf returns the kind of a file by its name and contents.
func KindOf(file string, data []byte) Kind {
	if isArchive(file, data) {
		return KindArchive
	}
	if kind := kindOfText(file, data); kind != "" {
		return kind
	}
	keys, sites := topKeys(file, data)
	has := func(some ...string) bool {
		return slices.ContainsFunc(some, func(k string) bool { return slices.Contains(keys, k) })
	}
	switch {
	case has("image", "build"):
		return KindBeefile
	case sites:
		return KindSites
	case has("services"):
		return KindCompose
	case has("apiVersion"):
		return KindKubernetes
	case has("resources", "num_nodes", "file_mounts", "envs") && has("run", "setup", "resources"):
		return KindSkyPilot
	}
	return KindBeefile
}

// isJob reports whether a file has keys of a Beefile that no sites file has.
func isJob(file string, data []byte) bool {
	keys, sites := topKeys(file, data)
	return !sites && slices.ContainsFunc(keys, func(k string) bool { return k == "image" || k == "build" || k == "run" })
}

// topKeys returns the keys at the top of a text, of several documents the first one's, and
// whether one of them is a list of sites. What cannot be parsed has none.
func topKeys(file string, data []byte) (keys []string, sites bool) {
	d := newDecoder(file, data)
	documents := d.documents(data)
	if len(documents) == 0 || len(d.report.problems) > 0 {
		return nil, false
	}
	ast.Walk(d, documents[0])
	for _, f := range d.fields(documents[0], "") {
		key := f.Key.GetToken().Value
		keys = append(keys, key)
		if list, is := f.Value.(*ast.SequenceNode); is && key == "sites" && len(list.Values) > 0 {
			_, sites = list.Values[0].(ast.MapNode)
		}
	}
	return keys, sites
}

// isArchive reports whether a file is a tar archive, by its contents, or compressed and
// called one.
func isArchive(file string, data []byte) bool {
	const magicAt = 257
	if len(data) > magicAt && strings.HasPrefix(string(data[magicAt:]), "ustar") {
		return true
	}
	return isTarName(file) && strings.ContainsRune(string(data[:min(len(data), 512)]), 0)
}

// isTarName reports whether a file is called as tar archives are.
func isTarName(file string) bool {
	return slices.ContainsFunc([]string{".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".tar.zst"}, func(end string) bool { return strings.HasSuffix(file, end) })
}

// kindOfText is the kind of a file that is no YAML, or "".
func kindOfText(file string, data []byte) Kind {
	text := string(data)
	if name := strings.ToLower(filepath.Base(file)); name == "dockerfile" || name == "containerfile" || strings.HasSuffix(name, ".dockerfile") || strings.HasPrefix(name, "dockerfile.") {
		return KindDockerfile
	}
	if first, _, _ := strings.Cut(text, "\n"); strings.HasPrefix(first, "#!") && !strings.Contains(first, "bee") {
		if strings.Contains(text, "\n#SBATCH") || strings.Contains(text, "\n#PBS") {
			return KindBatch
		}
		return KindScript
	}
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case word == "" || strings.HasPrefix(word, "#"):
			continue
		case word == "FROM" || word == "ARG":
			return KindDockerfile
		case strings.EqualFold(word, "Bootstrap:"):
			return KindDefinition
		case word == "docker" && strings.HasPrefix(strings.TrimSpace(rest), "run"):
			return KindScript
		}
		break
	}
	return ""
}

// FileKind is the kind of a file on this machine; what cannot be read is taken for a
// Beefile, as reading it again reports why.
func FileKind(file string) Kind {
	f, err := os.Open(file)
	if err != nil {
		return KindBeefile
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return KindBeefile
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return KindBeefile
	}
	return KindOf(file, data)
}
