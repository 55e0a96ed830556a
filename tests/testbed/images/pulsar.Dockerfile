# Pulsar with the folder, user and helper of upstream's image.
ARG BASE
FROM ${BASE}
ADD pulsar.tar.gz /build/pulsar/
COPY apply-config-from-env.py /build/
RUN mv /build/pulsar/apache-pulsar-* /pulsar && mv /build/apply-config-from-env.py /pulsar/bin/ \
    && mkdir -p /pulsar/data /pulsar/logs && chmod 0755 /pulsar/bin/apply-config-from-env.py \
    && chgrp -R 0 /pulsar/conf /pulsar/data /pulsar/logs && chmod -R g=u /pulsar/conf /pulsar/data /pulsar/logs \
    && chown -R 10000 /pulsar/conf /pulsar/data /pulsar/logs
ENV PULSAR_HOME=/pulsar PULSAR_ROOT_LOGGER=INFO,CONSOLE PATH=/pulsar/bin:/usr/local/bin:/usr/bin:/bin
WORKDIR /pulsar
USER 10000
EXPOSE 6650 8080
CMD ["bash"]
