package source

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// documents are those of a source, by digest.
type documents map[string][]byte

func (d documents) get(_ context.Context, of v1.Descriptor, _ int64) (io.ReadCloser, error) {
	raw, ok := d[of.Digest.String()]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(raw)), nil
}

// put adds a document, and describes it.
func (d documents) put(t *testing.T, kind types.MediaType, content any) v1.Descriptor {
	t.Helper()
	raw, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	d[digest(raw)] = raw
	h, err := v1.NewHash(digest(raw))
	if err != nil {
		t.Fatal(err)
	}
	return v1.Descriptor{MediaType: kind, Digest: h, Size: int64(len(raw))}
}

// image adds one for a platform, whose name is its author.
func (d documents) image(t *testing.T, name, arch, variant string) v1.Descriptor {
	t.Helper()
	config := d.put(t, types.OCIConfigJSON, v1.ConfigFile{OS: "linux", Architecture: arch, Variant: variant, Author: name, RootFS: v1.RootFS{DiffIDs: []v1.Hash{}}})
	return d.put(t, types.OCIManifestSchema1, v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: config, Layers: []v1.Descriptor{}})
}

func (d documents) index(t *testing.T, list ...v1.Descriptor) v1.Descriptor {
	t.Helper()
	return d.put(t, types.OCIImageIndex, v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: list})
}

func forPlatform(x v1.Descriptor, arch, variant string) v1.Descriptor {
	x.Platform = &v1.Platform{OS: "linux", Architecture: arch, Variant: variant}
	return x
}

// TestTheBestOfAnIndex is what the platform can run and asks most of it.
func TestTheBestOfAnIndex(t *testing.T) {
	d := documents{}
	image := func(name, arch, variant string) v1.Descriptor {
		return forPlatform(d.image(t, name, arch, variant), arch, variant)
	}
	plain, v2, v3, arm := image("plain", "amd64", ""), image("v2", "amd64", "v2"), image("v3", "amd64", "v3"), image("arm", "arm64", "v8")
	bare, bareArm := d.image(t, "bare", "amd64", ""), d.image(t, "bare arm", "arm64", "")
	attestation := d.put(t, types.OCIManifestSchema1, v1.Manifest{SchemaVersion: 2, Config: d.put(t, types.OCIConfigJSON, map[string]any{}), Layers: []v1.Descriptor{{MediaType: "application/vnd.in-toto+json"}}})
	marked := attestation
	marked.Annotations = map[string]string{"vnd.docker.reference.type": "attestation-manifest"}
	attestation.Platform = &v1.Platform{OS: "unknown", Architecture: "unknown"}
	artifact := d.put(t, types.OCIManifestSchema1, map[string]any{"schemaVersion": 2, "artifactType": "application/vnd.dev.cosign.artifact.sig.v1+json", "config": v1.Descriptor{MediaType: types.OCIEmptyJSON, Digest: plain.Digest}, "layers": []any{}})
	deep := d.index(t, plain)
	for range 3 {
		deep = d.index(t, deep)
	}
	windows := plain
	windows.Platform = &v1.Platform{OS: "windows", Architecture: "amd64"}
	for name, c := range map[string]struct {
		list []v1.Descriptor
		want string // the platform, amd64 where there is none
		gets string // "": none
	}{
		"the first of variants is not what the host has": {[]v1.Descriptor{v3, v2, plain}, "", "plain"},
		"a variant that is asked for":                    {[]v1.Descriptor{plain, v3, v2}, "linux/amd64/v3", "v3"},
		"the next lower one":                             {[]v1.Descriptor{plain, v2, arm}, "linux/amd64/v3", "v2"},
		"none below":                                     {[]v1.Descriptor{v3, v2}, "", ""},
		"of equal ones the first":                        {[]v1.Descriptor{image("one", "amd64", ""), image("two", "amd64", "v1")}, "", "one"},
		"arm64 is v8":                                    {[]v1.Descriptor{plain, image("v9", "arm64", "v9"), arm}, "linux/arm64", "arm"},
		"arm64 of v9 runs v8":                            {[]v1.Descriptor{plain, arm}, "linux/arm64/v9.2", "arm"},
		"another name of the architecture":               {[]v1.Descriptor{arm, image("x", "x86_64", "")}, "", "x"},
		"attestations":                                   {[]v1.Descriptor{attestation, marked, plain}, "", "plain"},
		"nested by platform":                             {[]v1.Descriptor{forPlatform(d.index(t, arm), "arm64", ""), forPlatform(d.index(t, plain, attestation), "amd64", "")}, "", "plain"},
		"nested without platforms":                       {[]v1.Descriptor{d.index(t, arm), d.index(t, plain)}, "", "plain"},
		"nested, and only the outer one says for what":   {[]v1.Descriptor{forPlatform(d.index(t, bareArm), "arm64", ""), forPlatform(d.index(t, bare), "amd64", "")}, "", "bare"},
		"the best of several nested ones":                {[]v1.Descriptor{d.index(t, plain), d.index(t, v2, v3)}, "linux/amd64/v4", "v3"},
		"no platform":                                    {[]v1.Descriptor{bareArm, bare}, "", "bare"},
		"a signature beside it":                          {[]v1.Descriptor{artifact, bare}, "", "bare"},
		"windows beside it":                              {[]v1.Descriptor{windows, plain}, "", "plain"},
		"nested too deep":                                {[]v1.Descriptor{deep}, "", ""},
		"only others":                                    {[]v1.Descriptor{arm, windows}, "", ""},
		"no image at all":                                {[]v1.Descriptor{artifact}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			want := v1.Platform{OS: "linux", Architecture: "amd64"}
			if c.want != "" {
				p, err := v1.ParsePlatform(c.want)
				if err != nil {
					t.Fatal(err)
				}
				want = *p
			}
			manifest, err := choose(t.Context(), d[d.index(t, c.list...).Digest.String()], want, "", d.get)
			if c.gets == "" {
				if err == nil || core.KindOf(err) == core.Permanent {
					t.Errorf("got %s, %v", manifest, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			i, err := assemble(t.Context(), manifest, d.get)
			if err != nil || i.File.Author != c.gets {
				t.Errorf("got %q, %v", i.File.Author, err)
			}
		})
	}
}

// TestWhatIsNoImageIsNamed with what to do instead.
func TestWhatIsNoImageIsNamed(t *testing.T) {
	of := func(config string, layers ...string) string {
		m := map[string]any{"schemaVersion": 2, "config": map[string]any{"mediaType": config, "digest": "sha256:" + strings.Repeat("a", 64), "size": 2}}
		var list []any
		for _, l := range layers {
			list = append(list, map[string]any{"mediaType": l, "digest": "sha256:" + strings.Repeat("b", 64), "size": 2})
		}
		m["layers"] = list
		raw, _ := json.Marshal(m) // plain data
		return string(raw)
	}
	var refused testkit.ErrorList
	for _, manifest := range []string{
		of("application/vnd.sylabs.sif.config.v1+json", "application/vnd.sylabs.sif.layer.v1.sif"),
		of("application/vnd.cncf.helm.config.v1+json", "application/vnd.cncf.helm.chart.content.v1.tar+gzip"),
		of("application/vnd.docker.plugin.v1+json", "application/vnd.docker.image.rootfs.diff.tar.gzip"),
		of("application/vnd.oci.image.config.v1+json", "application/vnd.in-toto+json"),
		of("application/vnd.oci.image.config.v1+json", "application/vnd.dev.cosign.simplesigning.v1+json"),
		of("application/vnd.oci.empty.v1+json", "text/plain"),
		of("application/vnd.wasm.config.v0+json", "application/wasm"),
		`{"schemaVersion":1,"name":"x","fsLayers":[]}`,
		`{"schemaVersion":2,"artifactType":"application/x","config":{"mediaType":"application/vnd.oci.empty.v1+json"}}`,
	} {
		_, err := assemble(t.Context(), []byte(manifest), documents{}.get)
		if !core.IsKind(err, core.Unsupported) || core.Remedy(err) == "" {
			t.Errorf("%s: %v (%s)", manifest, err, core.Remedy(err))
		}
		refused.Add(manifest, err)
	}
	refused.Compare(t, "artifacts")
	d := documents{}
	for kind, says := range map[types.MediaType]string{"application/vnd.oci.image.layer.v1.tar+gzip+encrypted": "encrypted", "application/x-squashfs": "application/x-squashfs"} {
		config := d.put(t, types.OCIConfigJSON, v1.ConfigFile{RootFS: v1.RootFS{DiffIDs: []v1.Hash{{Algorithm: "sha256", Hex: strings.Repeat("a", 64)}}}})
		m := d.put(t, types.OCIManifestSchema1, v1.Manifest{SchemaVersion: 2, Config: config, Layers: []v1.Descriptor{{MediaType: kind, Digest: config.Digest}}})
		if _, err := assemble(t.Context(), d[m.Digest.String()], d.get); !core.IsKind(err, core.Unsupported) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	config := d.put(t, types.OCIConfigJSON, v1.ConfigFile{RootFS: v1.RootFS{DiffIDs: []v1.Hash{{Algorithm: "sha256", Hex: strings.Repeat("a", 64)}}}})
	m := d.put(t, types.OCIManifestSchema1, v1.Manifest{SchemaVersion: 2, Config: config, Layers: []v1.Descriptor{{MediaType: types.OCIRestrictedLayer, Digest: v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("b", 64)}, URLs: []string{"https://x"}}}})
	i, err := assemble(t.Context(), d[m.Digest.String()], d.get)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.Layers[0].Open(t.Context(), 0); !core.IsKind(err, core.Unsupported) || !strings.Contains(err.Error(), "https://x") {
		t.Errorf("a layer that is elsewhere: %v", err)
	}
}

// TestFilesThatAreNoArchivesAreNamed by how they begin.
func TestFilesThatAreNoArchivesAreNamed(t *testing.T) {
	var refused testkit.ErrorList
	dir := t.TempDir()
	for _, head := range []string{"#!/usr/bin/env run-singularity\n\x00SIF_MAGIC\x00", "hsqs....", "PK\x03\x04", "QFI\xfb", "\x7fELF", `{"schemaVersion": 2}`} {
		file := filepath.Join(dir, "file")
		if err := os.WriteFile(file, []byte(head+strings.Repeat(".", 600)), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Archive(t.Context(), f, "", v1.Platform{})
		if !core.IsKind(err, core.Unsupported) || core.Remedy(err) == "" {
			t.Errorf("%q: %v (%s)", head, err, core.Remedy(err))
		}
		refused.Add(head, err)
	}
	testkit.Golden(t, "files", strings.ReplaceAll(refused.String(), dir, "DIR"))
}

// FuzzChoose wants an answer to any index and manifest, and never more documents than
// the bound.
func FuzzChoose(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","digest":"sha256:00","size":3,"data":"e30="}]}`))
	f.Add([]byte(`{"schemaVersion":1}`))
	f.Add([]byte(`{"schemaVersion":2,"config":{"mediaType":"application/vnd.oci.empty.v1+json"},"layers":[{}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		read := 0
		get := func(context.Context, v1.Descriptor, int64) (io.ReadCloser, error) {
			read++
			return io.NopCloser(bytes.NewReader(raw)), nil
		}
		choose(t.Context(), raw, v1.Platform{OS: "linux", Architecture: "amd64"}, "", get) //nolint:errcheck // either is right
		assemble(t.Context(), raw, get)                                                    //nolint:errcheck // see above
		if read > 3*maxDocuments {
			t.Errorf("%d documents were read", read)
		}
	})
}
