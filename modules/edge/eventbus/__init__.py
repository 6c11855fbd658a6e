"""eventbus: between the bus and applications on MQTT brokers.

`module` is the actor. `connection` keeps a session with one broker: `session` runs it with paho-mqtt, on a thread of
its own, `client` and `packets` have the packets of messages, and `publications` has the waiting messages. `routing`
decides who receives a topic's messages, `refusals` which messages are refused.

The broker that eventbus runs itself: `internal_broker` has its settings and the text of its files, `mosquitto_files`
its directory, `mosquitto_process` its process, `mosquitto_launcher` is the program that becomes mosquitto.
"""
