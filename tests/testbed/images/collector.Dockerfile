# The collector with the paths and user of upstream's image, which holds nothing but the program.
ARG BASE
FROM scratch
COPY otelcol /otelcol
USER 10001
EXPOSE 4317 4318
ENTRYPOINT ["/otelcol"]
CMD ["--config", "/etc/otelcol/config.yaml"]
