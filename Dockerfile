# The service as an image: `docker build -t videau:0.1.0 .`, with Docker, Podman or Buildah. Beside the base image the
# build needs the Python package index alone. `.ci/image` takes the same steps without an engine, and tries the result.
#
# The base is named by its tag, and gets Debian's and Python's repairs with each build; for a build that can be repeated,
# add the digest that you have tried to both lines.
FROM python:3.11-slim-bookworm AS build
ENV UV_PROJECT_ENVIRONMENT=/opt/videau \
    UV_PYTHON_DOWNLOADS=never \
    UV_LINK_MODE=copy
WORKDIR /src
RUN python -m pip install --no-cache-dir --target /tools uv==0.13.9
COPY pyproject.toml README.md LICENSE ./
COPY domain domain
COPY infra infra
COPY service service
# the exact versions of pyproject.toml; the package itself is built, not linked
RUN /tools/bin/uv sync --no-cache --no-default-groups --extra traces --no-editable --compile-bytecode

FROM python:3.11-slim-bookworm
LABEL org.opencontainers.image.title="videau" \
      org.opencontainers.image.description="Backgammon as a service" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"
# nothing can be installed later; who runs it owns nothing but /data
RUN python -m pip uninstall --yes --quiet pip setuptools wheel \
    && groupadd --gid 10001 videau \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin videau \
    && install --directory --owner=10001 --group=10001 --mode=0700 /data
COPY --from=build /opt/videau /opt/videau
ENV PATH=/opt/videau/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    VIDEAU_HOST=0.0.0.0 \
    VIDEAU_PORT=8000 \
    VIDEAU_DATABASE_URL=sqlite:////data/videau.db
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f'http://127.0.0.1:{os.environ[\"VIDEAU_PORT\"]}/healthz', timeout=4)"]
ENTRYPOINT ["videau"]
CMD ["serve"]
