package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// kinds are media types of what registries have beside images: the beginning of the
// type, its name for people, and what to do.
var kinds = []struct{ prefix, name, remedy string }{ // a table
	{"application/vnd.docker.distribution.manifest.v1+", "an image in Docker's old format (schema 1)", "Convert it where an old docker runs: pull the image there, and push it again."},
	{"application/vnd.sylabs.sif.", "a SIF file of Apptainer or Singularity", "Pull it into a file: `apptainer pull app.sif oras://NAME`, then name it as sif:app.sif; or name the image that the SIF file was made from."},
	{"application/vnd.cncf.helm.", "a Helm chart", "Name an image of the chart: `helm template` prints them."},
	{"application/vnd.docker.plugin.", "a plugin of Docker", "Name an image of a container."},
	{"application/vnd.wasm.", "a WebAssembly module", "Name an image of a container."},
	{"application/wasm", "a WebAssembly module", "Name an image of a container."},
	{"application/vnd.in-toto", "an attestation of an image", "Name the image itself."},
	{"application/vnd.dev.cosign.", "a signature of an image", "Name the image itself."},
	{"application/vnd.dev.sigstore.", "a signature of an image", "Name the image itself."},
	{"application/vnd.cncf.notary.", "a signature of an image", "Name the image itself."},
}

// kindError is the error for a media type that is no image's.
func kindError(mediaType string) error {
	for _, k := range kinds {
		if strings.HasPrefix(mediaType, k.prefix) {
			return &core.Error{Kind: core.Unsupported, Op: "read image", Err: errors.New("it is " + k.name), Remedy: k.remedy}
		}
	}
	return &core.Error{Kind: core.Unsupported, Op: "read image", Err: fmt.Errorf("it is an artifact of the kind %q", mediaType), Remedy: "This is no image of a container; check its name."}
}

// fileError is the error for a file that begins as other things do that people have in
// the place of an image; nil: it is none of these.
func fileError(head []byte) *core.Error {
	for _, k := range []struct {
		at          int
		magic, name string
		remedy      string
	}{
		{32, "SIF_MAGIC", "a SIF file of Apptainer or Singularity", "Name it as sif:FILE."},
		{0, "hsqs", "a SquashFS file", "Name the image that it was made from, or `unsquashfs -d DIR FILE`, `tar -C DIR -c . | docker import - NAME`, then name it as docker-daemon:NAME."},
		{0, "PK\x03\x04", "a zip archive", "Unpack it first."},
		{0, "QFI\xfb", "a disk image of QEMU", "Name an image of a container."},
		{0, "\x7fELF", "a program", "Name an image of a container."},
		{0, "{", "a JSON document", "Name the directory of the OCI layout (oci:DIR), or the archive."},
	} {
		if len(head) > k.at && strings.HasPrefix(string(head[k.at:]), k.magic) {
			return &core.Error{Kind: core.Unsupported, Err: errors.New("it is " + k.name), Remedy: k.remedy}
		}
	}
	return nil
}

// otherKind returns the error for a manifest of something that is no image, else nil.
func otherKind(manifest []byte) error {
	var m struct {
		SchemaVersion int             `json:"schemaVersion"`
		MediaType     string          `json:"mediaType"`
		ArtifactType  string          `json:"artifactType"`
		Config        v1.Descriptor   `json:"config"`
		Layers        []v1.Descriptor `json:"layers"`
	}
	if err := json.Unmarshal(manifest, &m); err != nil {
		return invalid("read manifest", err)
	}
	config := string(m.Config.MediaType)
	switch {
	case m.SchemaVersion == 1:
		return kindError(kinds[0].prefix)
	case m.ArtifactType != "" && !m.Config.MediaType.IsConfig():
		return kindError(m.ArtifactType)
	case strings.Contains(config, ".empty.") && len(m.Layers) > 0:
		return kindError(string(m.Layers[0].MediaType))
	}
	for _, t := range append([]v1.Descriptor{m.Config}, m.Layers...) {
		for _, k := range kinds {
			if strings.HasPrefix(string(t.MediaType), k.prefix) {
				return kindError(string(t.MediaType))
			}
		}
	}
	return nil
}

// elsewhere explains why a layer is absent that its maker forbids to pass on.
func elsewhere(d v1.Descriptor, err error) error {
	t, answered := errors.AsType[*transport.Error](err)
	if err == nil || d.MediaType.IsDistributable() || !errors.Is(err, fs.ErrNotExist) && !(answered && t.StatusCode == http.StatusNotFound) {
		return err
	}
	return &core.Error{
		Kind: core.Unsupported, Op: "read layer", Object: d.Digest.String(), Err: fmt.Errorf("it is not distributed with the image, but by %s", strings.Join(d.URLs, ", ")),
		Remedy: "Pull the image with docker, which fetches the layer from there, and name it as docker-daemon:NAME.",
	}
}
