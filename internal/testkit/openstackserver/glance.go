package openstackserver

import (
	"bytes"
	"crypto/md5"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// glance answers the calls of Glance.
type glance struct{ s *Server }

type imageItem map[string]any

// images are those that there are: public ones, and what the project has made.
func (g glance) images() []imageItem {
	image := func(id, name string, more map[string]any) imageItem {
		i := imageItem{"id": id, "name": name, "status": "active", "min_disk": 0, "min_ram": 0, "size": 400 << 20, "visibility": "public", "owner": "others", "tags": []any{}}
		maps.Copy(i, more)
		return i
	}
	all := []imageItem{
		image("img-1", Image, map[string]any{"os_admin_user": "debian", "hw_architecture": "x86_64"}),
		image("img-2", Plain, nil), image("img-3", Twice, nil), image("img-4", Twice, nil),
		image("img-5", Big, map[string]any{"min_disk": 10, "os_distro": "ubuntu"}),
		image("img-6", Arm, map[string]any{"architecture": "aarch64"}),
	}
	return append(all, g.s.images...)
}

// listImages answers with one image a page: Glance has pages.
func (g glance) listImages(r *http.Request, _ map[string]any) (int, any, error) {
	q := r.URL.Query()
	var found []imageItem
	passed := q.Get("marker") == ""
	for _, i := range g.images() {
		tags, _ := i["tags"].([]any)
		fits := !slices.ContainsFunc(q["tag"], func(tag string) bool { return !slices.Contains(tags, any(tag)) })
		for _, key := range []string{"name", "owner", "status"} {
			fits = fits && (q.Get(key) == "" || q.Get(key) == i[key])
		}
		if passed && fits {
			found = append(found, i)
		}
		passed = passed || q.Get("marker") == i["id"]
	}
	reply := map[string]any{"images": found[:min(1, len(found))], "schema": "/v2/schemas/images", "first": "/v2/images"}
	if len(found) > 1 {
		reply["next"] = "/v2/images?marker=" + fmt.Sprint(found[0]["id"])
	}
	return http.StatusOK, reply, nil
}

func (g glance) showImage(r *http.Request, _ map[string]any) (int, any, error) {
	for _, i := range g.images() {
		if i["id"] == r.PathValue("id") {
			return http.StatusOK, i, nil
		}
	}
	return 0, nil, fail(http.StatusNotFound, "No image found with ID %s", r.PathValue("id"))
}

// own returns one that the project has made.
func (g glance) own(id string) (imageItem, error) {
	at := slices.IndexFunc(g.s.images, func(i imageItem) bool { return i["id"] == id })
	if at < 0 {
		return nil, fail(http.StatusNotFound, "Failed to find image %s", id)
	}
	if g.s.images[at]["owner"] != projectID {
		return nil, fail(http.StatusForbidden, "You are not permitted to change image %s", id)
	}
	return g.s.images[at], nil
}

// makeImage makes an image without content. Its further properties are texts.
func (g glance) makeImage(_ *http.Request, body map[string]any) (int, any, error) {
	i := imageItem{
		"id": g.s.id("img"), "status": "queued", "owner": projectID, "size": nil, "checksum": nil, "os_hash_algo": nil, "os_hash_value": nil, "min_disk": 0, "min_ram": 0,
		"visibility": "shared", "tags": []any{}, "created_at": time.Now().UTC().Format(time.RFC3339),
	}
	for key, value := range body {
		if _, is := value.(string); !is && key != "tags" && key != "min_disk" && key != "min_ram" {
			return 0, nil, fail(http.StatusBadRequest, "Provided object does not match schema 'image': %v is not of type 'string' at %s", value, key)
		}
		i[key] = value
	}
	if _, err := g.own(fmt.Sprint(i["id"])); err == nil {
		return 0, nil, fail(http.StatusConflict, "Image ID %v already exists!", i["id"])
	}
	g.s.images = append(g.s.images, i)
	return http.StatusCreated, i, nil
}

// changeImage adds and replaces properties.
func (g glance) changeImage(r *http.Request, body map[string]any) (int, any, error) {
	i, err := g.own(r.PathValue("id"))
	if err != nil {
		return 0, nil, err
	}
	if kind := r.Header.Get("Content-Type"); kind != patchType {
		return 0, nil, fail(http.StatusUnsupportedMediaType, "the content type is %q", kind)
	}
	changes, _ := body[changesKey].([]any)
	for _, c := range changes {
		change, _ := c.(map[string]any)
		key, value := strings.TrimPrefix(fmt.Sprint(change["path"]), "/"), change["value"]
		if _, there := i[key]; change["op"] == "replace" && !there {
			return 0, nil, fail(http.StatusConflict, "Property %s does not exist.", key)
		}
		i[key] = value
	}
	return http.StatusOK, i, nil
}

func (g glance) endImage(r *http.Request, _ map[string]any) (int, any, error) {
	if _, err := g.own(r.PathValue("id")); err != nil {
		return 0, nil, err
	}
	g.s.images = slices.DeleteFunc(g.s.images, func(i imageItem) bool { return i["id"] == r.PathValue("id") })
	return http.StatusNoContent, nil, nil
}

const (
	patchType = "application/openstack-images-v2.1-json-patch"
	// changesKey is where the list of a patch is in the body that handlers get.
	changesKey = "changes"
	// mostKept is how many bytes of an image are kept.
	mostKept = 16 << 20
)

// bodyOf reads the body of a call.
func bodyOf(r *http.Request) (map[string]any, error) {
	var body map[string]any
	if r.ContentLength == 0 {
		return nil, nil
	}
	if r.Header.Get("Content-Type") == patchType {
		var changes []any
		err := json.NewDecoder(r.Body).Decode(&changes)
		return map[string]any{changesKey: changes}, err
	}
	return body, json.NewDecoder(r.Body).Decode(&body)
}

// storeImage takes the content of an image. It is not locked meanwhile, as an upload takes long.
func (g glance) storeImage(w http.ResponseWriter, r *http.Request) {
	const pattern = "PUT /image/v2/images/{id}/file"
	s := g.s
	var i imageItem
	var dropped fault
	status := http.StatusNoContent
	s.locked(func() {
		s.calls[pattern]++
		var err error
		if i, err = g.own(r.PathValue("id")); err != nil {
			status = http.StatusNotFound
			return
		}
		switch {
		case !s.tokens[r.Header.Get("X-Auth-Token")]:
			status = http.StatusUnauthorized
		case i["status"] != "queued":
			status = http.StatusConflict
		case r.Header.Get("Content-Type") != "application/octet-stream" || r.ContentLength < 0: // as behind some servers
			status = http.StatusLengthRequired
		case len(s.faults[pattern]) > 0:
			dropped, status = s.faults[pattern][0], s.faults[pattern][0].status
			s.faults[pattern] = s.faults[pattern][1:]
		}
		if status == http.StatusNoContent {
			i["status"] = "saving"
		}
	})
	if status != http.StatusNoContent && !dropped.done {
		if status == 0 {
			panic(http.ErrAbortHandler)
		}
		write(w, status, map[string]any{"error": map[string]any{"code": status, "message": "as the test wants it"}})
		return
	}
	sum, old, kept := sha512.New(), md5.New(), &bytes.Buffer{}
	n, err := io.Copy(io.MultiWriter(sum, old), io.TeeReader(r.Body, limited{kept}))
	s.locked(func() {
		if err != nil || n != r.ContentLength { // Glance forgets it
			i["status"] = "queued"
			return
		}
		if s.damaged {
			s.damaged = false
			sum.Write([]byte{0})
		}
		i["status"], i["size"], i["checksum"], i["os_hash_algo"], i["os_hash_value"] = "active", n, hex.EncodeToString(old.Sum(nil)), "sha512", hex.EncodeToString(sum.Sum(nil))
		s.contents[fmt.Sprint(i["id"])] = kept.Bytes()
	})
	if status == 0 || err != nil {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(status)
}

// limited keeps the beginning of what is written.
type limited struct{ to *bytes.Buffer }

func (l limited) Write(p []byte) (int, error) {
	l.to.Write(p[:min(len(p), max(0, mostKept-l.to.Len()))])
	return len(p), nil
}

// Damage has the next image stored otherwise than it was sent.
func (s *Server) Damage() { s.locked(func() { s.damaged = true }) }

// Foreign has the project see images with such properties that are none of bee's installation: one of its own, and one that
// another project shares with it.
func (s *Server) Foreign(properties map[string]any) {
	s.locked(func() {
		for _, owner := range []string{projectID, "fedcba9876543210fedcba9876543210"} {
			i := imageItem{"id": s.id("img"), "name": "foreign", "status": "active", "min_disk": 0, "min_ram": 0, "size": 1 << 20, "visibility": "shared", "owner": owner, "tags": []any{"bee"}}
			maps.Copy(i, properties)
			s.images = append(s.images, i)
		}
	})
}

// Become has the images of a name, by its beginning, have a status.
func (s *Server) Become(name, status string) {
	s.locked(func() {
		for _, i := range s.images {
			if strings.HasPrefix(fmt.Sprint(i["name"]), name) {
				i["status"] = status
			}
		}
	})
}

// Images are those that the project has made, a line each.
func (s *Server) Images() (all []string) {
	s.locked(func() {
		for _, i := range s.images {
			all = append(all, fmt.Sprint(i["id"], " ", i["name"], " ", i["status"]))
		}
	})
	return all
}

// ImageOf returns the properties and the content of the image whose name begins so.
func (s *Server) ImageOf(name string) (properties map[string]any, content []byte) {
	s.locked(func() {
		for _, i := range s.images {
			if strings.HasPrefix(fmt.Sprint(i["name"]), name) {
				properties, content = maps.Clone(i), s.contents[fmt.Sprint(i["id"])]
			}
		}
	})
	return properties, content
}
