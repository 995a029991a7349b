#!/bin/sh
# Writes the digest of each image behind its tag, in docker-compose.yaml and Dockerfile: `postgres:16.15@sha256:...`.
# Needs `docker` with buildx, and the registries. An image that already has a digest is looked up again.
set -eu
cd "$(dirname "$0")/.."

images() {
  sed -nE 's/^ *image: ([^ @]+)(@sha256:[0-9a-f]{64})?$/\1/p' docker-compose.yaml
  sed -nE 's/^FROM ([^ @]+)(@sha256:[0-9a-f]{64})?$/\1/p' Dockerfile
}

for image in $(images | grep -v '^ml-metrics:' | sort -u); do
  digest=$(docker buildx imagetools inspect "$image" --format '{{.Manifest.Digest}}')
  echo "$digest" | grep -qxE 'sha256:[0-9a-f]{64}' ||
    { echo "deploy/pin-images.sh: $image: the registry gave no digest: '$digest'" >&2; exit 1; }
  for file in docker-compose.yaml Dockerfile; do
    sed -E "s#^( *image: |FROM )$image(@sha256:[0-9a-f]{64})?\$#\1$image@$digest#" "$file" >"$file.new"
    cat "$file.new" >"$file"
    rm "$file.new"
  done
  echo "$image@$digest"
done
