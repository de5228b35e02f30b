// Command fake-gcs-server is Google Cloud Storage in memory: the library of fake-gcs-server, and before it the one request
// of the XML API that it leaves out, a PUT of an object whose URL carries no signature. Arguments: the buckets.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

type front struct {
	server *fakestorage.Server
	// Held from the look at what is there to the write: a precondition is no guess.
	writing sync.Mutex
}

func main() {
	listen := flag.String("listen", "127.0.0.1:4443", "address and port to listen on")
	host := flag.String("public-host", "127.0.0.1:4443", "what clients call it")
	flag.Parse()
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{
		NoListener: true, PublicHost: *host, Writer: os.Stdout,
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, bucket := range flag.Args() {
		server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: bucket})
	}
	log.Fatal(http.ListenAndServe(*listen, &front{server: server}))
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPut {
		f.server.HTTPHandler().ServeHTTP(w, r)
		return
	}
	bucket, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	content, err := io.ReadAll(r.Body)
	if err != nil || name == "" || r.URL.RawQuery != "" {
		http.Error(w, "only whole objects can be put", http.StatusNotImplemented)
		return
	}
	if _, err := f.server.Backend().GetBucket(bucket); err != nil {
		http.Error(w, "<Error><Code>NoSuchBucket</Code></Error>", http.StatusNotFound)
		return
	}
	f.writing.Lock()
	defer f.writing.Unlock()
	if wanted := r.Header.Get("x-goog-if-generation-match"); wanted != "" {
		// One that is not there has generation 0.
		present, _ := f.server.GetObject(bucket, name)
		if wanted != strconv.FormatInt(present.Generation, 10) {
			http.Error(w, "<Error><Code>PreconditionFailed</Code></Error>", http.StatusPreconditionFailed)
			return
		}
	}
	attributes := fakestorage.ObjectAttrs{BucketName: bucket, Name: name, ContentType: r.Header.Get("Content-Type")}
	f.server.CreateObject(fakestorage.Object{ObjectAttrs: attributes, Content: content})
	written, err := f.server.GetObject(bucket, name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("ETag", fmt.Sprintf("%q", written.Etag))
	w.Header().Set("x-goog-generation", strconv.FormatInt(written.Generation, 10))
}
