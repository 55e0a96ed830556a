# Debian's Prometheus with the paths of upstream's image: an older release, good enough for scraping and rules.
ARG BASE
FROM ${BASE}
RUN install -d -o nobody -g nogroup /prometheus
USER nobody
EXPOSE 9090
VOLUME /prometheus
ENTRYPOINT ["/usr/bin/prometheus"]
CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]
